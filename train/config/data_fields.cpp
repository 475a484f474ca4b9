// The keys of the section `data`.
#include "train/config/field_ranges.h"

namespace whisker {
namespace {

using fields::above_zero;
using fields::Names;
using fields::share;

constexpr std::string_view cache_names[] = {"none", "memory", "disk", "device"};
constexpr std::string_view decode_names[] = {"fast", "exact"};
constexpr std::string_view sampling_names[] = {"shuffle", "balanced", "weighted", "sequential"};
constexpr std::string_view resize_names[] = {"crop", "squash", "letterbox", "squash_crop"};
constexpr std::string_view interpolation_names[] = {"bilinear", "bicubic"};
constexpr std::string_view kind_names[] = {"images", "text", "language", "rows", "series"};
constexpr std::string_view level_names[] = {"characters", "words"};
constexpr std::string_view rule_names[] = {"ascii", "unicode"};
constexpr std::string_view header_names[] = {"auto", "true", "false"};
constexpr std::string_view keep_names[] = {"first", "last"};

void text_fields(FieldVisitor& v, TextConfig& c) {
  v.field("level", EnumField(c.level, Names(level_names)),
          {.about = "tokens: characters, or words and punctuation marks"});
  v.field(
      "rules", EnumField(c.rules, Names(rule_names)),
      {.about = "which characters are letters, marks and spaces: Unicode's categories, with "
                "different spellings of a letter made one; ascii: as before there was this key"});
  v.field("lowercase", c.lowercase, {.about = "convert to lower case first"});
  v.field("min_count", c.min_count,
          {.about = "tokens rarer in the training set are unknown", .low = 1, .high = 1e9});
  v.field("max_vocabulary", c.max_vocabulary,
          {.about = "entries, padding and unknown included, the rarest left out; 0: no limit",
           .low = 0,
           .high = 1 << 28});
  v.field("max_length", c.max_length,
          {.about = "longest text, tokens; 0: no limit", .low = 0, .high = 1e6});
  v.field("keep", EnumField(c.keep, Names(keep_names)),
          {.about = "which tokens of a longer text are kept"});
  v.field("text_column", c.text_column,
          {.about = "kind text, in a file of rows: a number from 1, or a name in the first row"});
  v.field(
      "steps", c.steps,
      {.about = "kind language: steps through which gradients flow back", .low = 1, .high = 1e5});
}

void series_fields(FieldVisitor& v, SeriesConfig& c) {
  v.field("columns", c.columns,
          {.about = "columns to read: names in the first row, or numbers from 1"});
  v.field("targets", c.targets, {.about = "columns to forecast; empty: all"});
  v.field("window", c.window, {.about = "input rows of a forecast", .low = 1, .high = 1e6});
  v.field("horizon", c.horizon, {.about = "rows that are forecast", .low = 1, .high = 1e5});
  v.field("stride", c.stride, {.about = "rows between windows", .low = 1, .high = 1e6});
  v.field(
      "season", c.season,
      {.about = "rows of a period: the naive forecast, reported beside, is the value one period "
                "before; 0: the last value",
       .low = 0,
       .high = 1e6});
  v.field("log", c.log, {.about = "take logarithms first"});
  v.field(
      "difference", c.difference,
      {.about = "then differences to the row this many before; 0: none", .low = 0, .high = 1e6});
}

}  // namespace

void data_fields(FieldVisitor& v, DataConfig& c) {
  v.field(
      "kind", EnumField(c.kind, Names(kind_names)),
      {.about = "images with labels; text with labels; language: plain text, to continue; rows: "
                "a labelled sequence each; series: rows in time, to forecast"});
  v.field(
      "train", c.train,
      {.about = "training data: a folder of class folders, or one of splits (train/, val/, test/); "
                "a file (text also: a folder of one file per class)"});
  v.field("val", c.val,
          {.about = "validation data with classes of the training data; an override of data.train "
                    "alone clears it"});
  v.field(
      "test", c.test,
      {.about = "labelled data of the same kind, measured once at the end with the best weights; "
                "cleared likewise"});
  v.field(
      "val_split", c.val_split,
      {.about =
           "fraction of data.train to validate on when data.val is empty (0: a fifth): of each "
           "class, copies of an image together, or the end of a language's text and of a series",
       .low = 0,
       .high = 1,
       .exclusive_high = true});
  v.field("label_pattern", c.label_pattern,
          {.about = "label from the file name, such as '{label}.*.jpg'; empty: from the folder"});
  v.field("csv", c.csv,
          {.about = "CSV file with the columns path and label of data.train's images; empty: "
                    "from the folder"});
  v.field("image_size", c.image_size,
          {.about = "height and width of the network's input, pixels", .low = 1, .high = 4096});
  v.field(
      "train_image_size", c.train_image_size,
      {.about =
           "height and width of training images, for networks that take any size; 0: image_size",
       .low = 0,
       .high = 4096});
  v.field("channels", c.channels,
          {.about = "1 (gray) or 3 (RGB); an override to 1 alone averages mean and std",
           .low = 1,
           .high = 3});
  v.field("resize_short", c.resize_short,
          {.about = "validation: shorter side before the center crop, pixels; 0: image_size; an "
                    "override of image_size alone changes it in proportion",
           .low = 0,
           .high = 8192});
  v.field(
      "resize_mode", EnumField(c.resize_mode, Names(resize_names)),
      {.about = "how an image that is not square becomes one: its middle, squashed, with bars, or "
                "squashed and its middle"});
  v.field("interpolation", EnumField(c.interpolation, Names(interpolation_names)),
          {.about = "resampling filter when an image is resized"});
  v.field("antialias", c.antialias, {.about = "widen the filter when shrinking"});
  v.field("scale", c.scale,
          {.about = "factor from 0..255 to the network's range, before mean",
           .low = 1 / most_normalisation,
           .high = most_normalisation});
  v.field("mean", c.mean,
          {.about = "subtracted, per channel",
           .low = -most_normalisation,
           .high = most_normalisation,
           .least = 1,
           .most = 3});
  v.field("std", c.std,
          {.about = "divided by, per channel",
           .low = 1 / most_normalisation,
           .high = most_normalisation,
           .least = 1,
           .most = 3});
  v.field("decode", EnumField(c.decode, Names(decode_names)),
          {.about = "fast: training crops of JPEG files may be decoded at reduced scale"});
  v.field("gpu_decode", c.gpu_decode,
          {.about = "percent of the JPEG files of a training batch that nvJPEG decodes on the GPU; "
                    "auto: 75 with up to 4 CPU cores, 50 with up to 8, else 0, with decode: fast "
                    "and neither a cache, rand_augment nor trivial_augment",
           .low = 0,
           .high = 100});
  v.field("cache", EnumField(c.cache, Names(cache_names)),
          {.about = "where decoded images are kept between epochs"});
  v.field("cache_limit_mib", c.cache_limit_mib,
          above_zero("largest cache in memory, the device's or the host's, MiB"));
  v.field("cache_file", c.cache_file,
          {.about = "file of the disk cache, which only replaces a cache; empty: cache/FINGERPRINT "
                    "in the runs folder"});
  v.field("workers", c.workers,
          {.about = "decoding threads; 0 decodes in the training thread", .low = 0, .high = 256});
  v.field("prefetch", c.prefetch, {.about = "batches prepared ahead", .low = 1, .high = 1024});
  v.field("sampling", EnumField(c.sampling, Names(sampling_names)),
          {.about = "order of an epoch: each example once; each class equally often; each class "
                    "equally likely; as listed"});
  v.field("max_bad", c.max_bad,
          share("fraction of unreadable images, or rows, above which a run stops"));
  v.field("max_pixels", c.max_pixels,
          {.about = "largest image accepted, pixels", .low = 1, .high = 4'294'836'225.0});
  v.field("rules", c.rules,
          {.about = "rules by which files are listed, read and decoded; runs of versions without "
                    "this key keep 1",
           .low = 1,
           .high = newest_data_rules});
  v.field("png_bits", c.png_bits,
          {.about = "bits of the samples in PNG, PGM and PPM files of 16 bits: 12 for many "
                    "sensors; auto: what "
                    "32 training images need; 16: as they are",
           .low = 8,
           .high = 16});
  v.field(
      "buckets", c.buckets,
      {.about = "sequences: lengths that batches are padded to, at most", .low = 1, .high = 1024});
  v.field(
      "label_column", c.label_column,
      {.about = "of rows, and of text in a file of rows: a number from 1, or a name in the first "
                "row"});
  v.field("header", EnumField(c.header, Names(header_names)),
          {.about = "whether the first row of a table of text, rows or a series holds names; auto: "
                    "as its cells tell"});
  v.section("text", "how text becomes tokens", [&c](FieldVisitor& s) { text_fields(s, c.text); });
  v.section("rows", "how the values of a row become steps", [&c](FieldVisitor& s) {
    s.field("features", c.rows.features,
            {.about = "values per step; steps follow one another", .low = 1, .high = 1e6});
  });
  v.section("series", "how rows in time become windows",
            [&c](FieldVisitor& s) { series_fields(s, c.series); });
}

}  // namespace whisker
