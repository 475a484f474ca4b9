// Text, rows and series in memory, turned into numbers by what the training part taught: a
// vocabulary, or scaling.
#include "core/error.h"
#include "core/io/text.h"
#include "data/class_names.h"
#include "data/files/check_reading.h"
#include "data/sequences/label_reading.h"
#include "data/sequences/labelled_text.h"
#include "data/sequences/rows_input.h"
#include "data/sequences/sequence_source.h"
#include "data/sequences/series.h"
#include "data/sequences/text_stream.h"
#include "data/sequences/validation_split.h"
#include "train/data/copies.h"
#include "train/data/initial_input.h"
#include "train/data/run_data.h"
#include "train/data/sequence_sets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace whisker {
namespace {

struct Split {
  SequenceSet train, val;
};

void note_bad_rows(const std::vector<BadRow>& bad, RunData& data) {
  for (const BadRow& row : bad) {
    data.left_out.push_back(fmt::format("skipped: {}: {}", row.place, row.reason));
  }
}

void add_notes(const std::vector<std::string>& notes, const char* key, RunData& data) {
  for (const std::string& note : notes) data.notes.push_back(fmt::format("{}: {}", key, note));
}

void note_texts(const LabelledText& text, const char* key, RunData& data) {
  note_bad_rows(text.bad, data);
  if (const std::string use = text.use(); !use.empty()) {
    data.notes.push_back(fmt::format("{}: {}", key, use));
  }
  add_notes(text.notes, key, data);
}

// Batches of a training and a validation set, bucketed by the training set's lengths.
void make_sources(const Config& config, Split split, RunData& data) {
  const auto seed = static_cast<uint64_t>(config.seed);
  data.train_size = split.train.size();
  data.val_size = split.val.size();
  data.fingerprint = split.train.fingerprint() + "-" + split.val.fingerprint();
  data.steps = split.train.longest();
  data.uneven = !split.train.even();
  data.class_counts.assign(data.signature.classes.size(), 0);
  data.val_lacks = absent_classes(split.val.labels, data.signature.classes);
  for (const int64_t label : split.train.labels) ++data.class_counts[static_cast<size_t>(label)];
  if (config.train.overfit_batches == 0) {
    const auto& signature = data.signature;
    std::string missing = missing_classes(split.val.labels, signature.classes, signature.examples(),
                                          config.data.val.empty() ? "data.val_split" : "data.val");
    if (!missing.empty()) data.notes.push_back(std::move(missing));
  }
  std::vector<int64_t> labels = split.train.labels;
  if (labels.empty()) labels.assign(static_cast<size_t>(split.train.size()), 0);
  const bool sequential = config.data.sampling == SamplingKind::sequential;
  const auto classes = static_cast<int64_t>(std::max<size_t>(1, data.signature.classes.size()));
  SequenceSourceOptions options{.batch_size = config.train.batch_size,
                                .buckets = bucket_lengths(split.train.lengths, config.data.buckets),
                                .drop_last = config.train.drop_last,
                                .shuffle = !sequential,
                                .seed = seed,
                                .part = data.part};
  const auto shared = [](SequenceSet& set) {
    return std::make_shared<const SequenceSet>(std::move(set));
  };
  data.train = std::make_unique<SequenceSource>(shared(split.train),
                                                make_sampler(config, labels, classes), options);
  options.drop_last = false;
  options.shuffle = false;
  data.val = std::make_unique<SequenceSource>(shared(split.val), sequential_sampler(data.val_size),
                                              options);
}

// Which of `labels` train and which validate.
struct Parts {
  std::vector<int64_t> train, val;
};

Parts split_parts(const Config& config, std::span<const int64_t> labels,
                  std::span<const std::string> classes) {
  const std::vector<bool> held =
      choose_validation(labels, classes, config.data.val_split, static_cast<uint64_t>(config.seed));
  Parts parts;
  for (size_t i = 0; i < held.size(); ++i) {
    (held[i] ? parts.val : parts.train).push_back(static_cast<int64_t>(i));
  }
  return parts;
}

Parts whole(size_t train, size_t val) {
  Parts parts{.train = std::vector<int64_t>(train), .val = std::vector<int64_t>(val)};
  std::iota(parts.train.begin(), parts.train.end(), 0);
  std::iota(parts.val.begin(), parts.val.end(), 0);
  return parts;
}

// train.overfit_batches: both sets are a few examples of the training set.
void keep_few(const Config& config, Parts& parts) {
  if (config.train.overfit_batches == 0) return;
  std::vector<int64_t> few;
  for (const int64_t i : overfit_indices(config, std::ssize(parts.train))) {
    few.push_back(parts.train[static_cast<size_t>(i)]);
  }
  parts = {.train = few, .val = few};
}

// Validation examples that are training examples, too; `place` is that of a validation example.
void note_shared(const Config& config, RunData& run, const PlaceOf& place = {}) {
  const DataConfig& data = config.data;
  std::error_code error;
  if (config.train.overfit_batches > 0 ||
      std::filesystem::equivalent(data.train, data.val, error)) {
    return;
  }
  const SharedImages shared = find_shared(run.val_contents, run.train_contents, place);
  std::string note =
      shared_note(shared, std::ssize(run.val_contents),
                  validation_part(content_name(run.signature), data.val.empty()), "training");
  if (!note.empty()) run.notes.push_back(std::move(note));
}

// `place` begins with the name of the data, or of a file among them.
std::string relative_place(std::string place, const std::filesystem::path& data) {
  std::error_code unknown;
  const bool folder = std::filesystem::is_directory(data, unknown);
  const std::string before = printable(((folder ? data : data.parent_path()) / "").string());
  if (place.starts_with(before)) place.erase(0, before.size());
  return place;
}

// The contents of labelled examples, and what is to be said of copies among them.
struct LabelledContents {
  std::vector<uint64_t> contents;  // see RunData
  std::vector<uint64_t> hashes;
  PlaceOf place;  // of an example
};

void note_copies(const Config& config, const LabelledContents& train, const LabelledContents& val,
                 std::span<const int64_t> labels, const Parts& parts, RunData& run) {
  const bool own = config.data.val.empty() || config.train.overfit_batches > 0;
  const std::string& validated = own ? config.data.train : config.data.val;
  for (const int64_t i : parts.train) {
    run.train_contents.push_back(train.contents[static_cast<size_t>(i)]);
  }
  for (const int64_t i : parts.val) {
    run.val_contents.push_back(val.contents[static_cast<size_t>(i)]);
    run.val_hashes.push_back(val.hashes[static_cast<size_t>(i)]);
    run.val_places.push_back(relative_place(val.place(i), validated));
  }
  const auto originals = find_copies(
      train.contents, [&](int64_t i) { return train.contents[static_cast<size_t>(i)]; });
  std::string note = contradiction_note({find_contradictions(originals, labels)},
                                        std::ssize(labels), run.signature.examples(), train.place);
  if (!note.empty()) run.notes.push_back(std::move(note));
  note_shared(config, run, [&](int64_t i) { return val.place(parts.val[static_cast<size_t>(i)]); });
}

LabelledContents labelled_contents(const LabelledText& text) {
  const std::vector<uint64_t> contents = contents_of(text);
  return {contents, contents,
          [&](int64_t i) { return text.examples[static_cast<size_t>(i)].place; }};
}

LabelledContents labelled_contents(const LabelledRows& rows) {
  return {contents_of(rows), hashes_of(rows),
          [&](int64_t i) { return rows.places[static_cast<size_t>(i)]; }};
}

void add_note(const char* name, const std::string& note, RunData& run) {
  if (!note.empty()) run.notes.push_back(fmt::format("{}: {}", name, note));
}

// The vocabulary of the weights that the run starts from, else that of `counts`.
void set_vocabulary(const Config& config, const TokenCounts& counts, TextInput& input,
                    RunData& run) {
  const TextConfig& text = config.data.text;
  const auto initial = initial_input(config);
  const auto* const kept = kept_input<TextInput>(initial);
  input.vocabulary =
      kept ? kept->vocabulary
           : Vocabulary(counts, {.min_count = text.min_count, .max_size = text.max_vocabulary});
  if (!kept) add_note("data.train", input.unknown_note(counts), run);
  if (!kept || initial->file.empty()) return;
  run.notes.push_back(vocabulary_note(initial->file, input, counts));
  for (const auto& [key, limits] : {std::pair("min_count", text.min_count > 1),
                                    std::pair("max_vocabulary", text.max_vocabulary > 0)}) {
    if (limits)
      run.notes.push_back(
          fmt::format("data.text.{} has no effect: it is for a new vocabulary", key));
  }
}

// --- labelled text -------------------------------------------------------------------------------

TextInput text_input_of(const DataConfig& data) {
  const TextConfig& config = data.text;
  return {.level = config.level,
          .rules = config.rules,
          .lowercase = config.lowercase,
          .max_length = config.max_length,
          .keep = config.keep,
          .label_column = data.label_column,
          .text_column = config.text_column,
          .header = data.header};
}

RunData open_text(const Config& config, Partition part, KeepExamples keep) {
  const DataConfig& data = config.data;
  const auto read = [&](const std::string& path, const char* name,
                        std::vector<std::string> classes) {
    return read_labelled_text(path, {.label_column = data.label_column,
                                     .text_column = data.text.text_column,
                                     .label_chosen = config.given.contains("data.label_column"),
                                     .text_chosen = config.given.contains("data.text.text_column"),
                                     .header = data.header,
                                     .classes = std::move(classes),
                                     .max_bad = data.max_bad,
                                     .name = name,
                                     .rules = static_cast<int>(data.rules)});
  };
  RunData run;
  run.part = part;
  const LabelledText train = read(data.train, "data.train", {});
  note_texts(train, "data.train", run);
  LabelledText other;
  Parts parts;
  if (data.val.empty()) {
    parts = split_parts(config, train.labels(), train.classes);
  } else {
    other = read(data.val, "data.val", train.classes);
    note_texts(other, "data.val", run);
    parts = whole(train.examples.size(), other.examples.size());
  }
  keep_few(config, parts);
  TextInput input = text_input_of(data);
  TokenCounts counts;
  const int64_t cut = count_tokens(train, parts.train, input, counts);
  add_note("data.train", input.cut_note(cut, std::ssize(parts.train)), run);
  set_vocabulary(config, counts, input, run);
  const bool own = data.val.empty() || config.train.overfit_batches > 0;
  const LabelledText& validated = own ? train : other;
  TokenCounts val_counts;
  const int64_t val_cut = count_tokens(validated, parts.val, input, val_counts);
  add_note("validation", input.cut_note(val_cut, std::ssize(parts.val)), run);
  add_note("validation", input.unknown_note(val_counts), run);
  Split split{.train = encode(train, parts.train, input),
              .val = encode(validated, parts.val, input)};
  if (keep == KeepExamples::yes) {
    run.train_examples = examples_of(train, parts.train);
    run.val_examples = examples_of(validated, parts.val);
  }
  run.signature = {.input = std::move(input), .classes = train.classes};
  note_copies(config, labelled_contents(train), labelled_contents(validated), train.labels(), parts,
              run);
  make_sources(config, std::move(split), run);
  return run;
}

// --- plain text ----------------------------------------------------------------------------------

RunData open_language(const Config& config, Partition part) {
  const DataConfig& data = config.data;
  const auto rules = static_cast<int>(data.rules);
  std::string train = read_plain_text(data.train, rules);
  std::string val;
  if (!data.val.empty()) {
    val = read_plain_text(data.val, rules);
  } else {  // the end of the text, from a whole character on
    auto cut = static_cast<size_t>(static_cast<double>(train.size()) * (1 - data.val_split));
    while (cut < train.size() && (static_cast<uint8_t>(train[cut]) & 0xc0u) == 0x80u) ++cut;
    val = train.substr(cut);
    train.resize(cut);
  }
  RunData run;
  TextInput input = text_input_of(data);
  input.max_length = 0;
  TokenCounts counts;
  input.count(train, counts);
  set_vocabulary(config, counts, input, run);
  TokenCounts val_counts;
  input.count(val, val_counts);
  add_note("validation", input.unknown_note(val_counts), run);
  std::vector<int64_t> tokens = input.encode(train);
  if (config.train.overfit_batches > 0) {
    const int64_t most =
        config.train.overfit_batches * config.train.batch_size * data.text.steps + 1;
    tokens.resize(std::min(tokens.size(), static_cast<size_t>(most)));
  }
  std::vector<int64_t> val_tokens = config.train.overfit_batches > 0 ? tokens : input.encode(val);
  const TextStreamOptions options{
      .rows = config.train.batch_size, .steps = data.text.steps, .part = part};
  auto train_stream = std::make_unique<TextStream>(std::move(tokens), options);
  auto val_stream = std::make_unique<TextStream>(std::move(val_tokens), options);
  add_note("data.train", train_stream->unread_note(), run);
  add_note("validation", val_stream->unread_note(), run);
  run.signature = {.input = std::move(input), .classes = {}};
  run.train_contents = contents_of(train);
  run.val_contents = contents_of(val);
  if (!data.val.empty()) note_shared(config, run);
  run.train_size = train_stream->predictions();
  run.val_size = val_stream->predictions();
  run.steps = data.text.steps;
  run.part = part;
  run.fingerprint = train_stream->fingerprint() + "-" + val_stream->fingerprint();
  run.train = std::move(train_stream);
  run.val = std::move(val_stream);
  return run;
}

// --- scaling -------------------------------------------------------------------------------------

// The scaling of the weights that the run starts from, in place of the data's.
template <class Input>
void keep_scaling(const std::optional<InitialInput>& initial, const Input* kept, Input& input,
                  RunData& run) {
  if (!kept) return;
  if (kept->scaling.size() != input.scaling.size()) {
    fail(ErrorKind::usage, "{}: expected {} values per step as in training, got {}.",
         initial->file.empty() ? "last/state.json" : initial->file, kept->scaling.size(),
         input.scaling.size());
  }
  if (!initial->file.empty() && !input.scaling.empty()) {
    run.notes.push_back(scaling_note(initial->file, kept->scaling[0], input.scaling[0]));
  }
  input.scaling = kept->scaling;
}

// --- rows ----------------------------------------------------------------------------------------

RunData open_rows(const Config& config, Partition part, KeepExamples keep) {
  const DataConfig& data = config.data;
  RunData run;
  run.part = part;
  LabelledRowsOptions options{.label_column = data.label_column,
                              .features = data.rows.features,
                              .max_bad = data.max_bad,
                              .header = data.header,
                              .rules = static_cast<int>(data.rules)};
  if (data.label_column == no_label_column) {
    fail(ErrorKind::usage, "data.label_column: expected the column of the labels, got 'none'.");
  }
  const auto initial = initial_input(config);
  const auto* const kept = kept_input<RowsInput>(initial);
  if (kept) options.names = kept->names;
  const LabelledRows train = read_labelled_rows(data.train, options);
  note_bad_rows(train.bad, run);
  add_notes(train.notes, "data.train", run);
  run.signature.classes = class_names(train);
  add_notes(similar_classes(run.signature.classes), "data.train", run);
  const std::vector<int64_t> labels = numbers_of(train, run.signature.classes);
  LabelledRows other;
  Parts parts;
  if (data.val.empty()) {
    parts = split_parts(config, labels, run.signature.classes);
  } else {
    options.names = train.names;
    other = read_labelled_rows(data.val, options);
    note_bad_rows(other.bad, run);
    add_notes(other.notes, "data.val", run);
    parts = whole(train.values.size(), other.values.size());
  }
  keep_few(config, parts);
  RowsInput input{.label_column = data.label_column,
                  .features = data.rows.features,
                  .scaling = fit_scaling(train, parts.train),
                  .header = data.header,
                  .names = train.names};
  add_note("data.train", constant_note(input.scaling, input.value_names()), run);
  keep_scaling(initial, kept, input, run);
  fit_label_evidence(train, parts.train, run.signature.classes, input);
  add_notes(unlike_training(other, input), "data.val", run);
  const bool own = data.val.empty() || config.train.overfit_batches > 0;
  Split split{.train = encode(train, parts.train, input, run.signature.classes),
              .val = encode(own ? train : other, parts.val, input, run.signature.classes)};
  if (keep == KeepExamples::yes) {
    run.train_examples = examples_of(train, parts.train);
    run.val_examples = examples_of(own ? train : other, parts.val);
  }
  run.signature.input = std::move(input);
  note_copies(config, labelled_contents(train), labelled_contents(own ? train : other), labels,
              parts, run);
  make_sources(config, std::move(split), run);
  return run;
}

// --- series --------------------------------------------------------------------------------------

// A column, or a target, that is named twice, also by its name and its number.
void refuse_doubled_columns(const SeriesInput& input, const Series& series) {
  const auto& at = series.positions;
  for (size_t i = 0; i < at.size(); ++i) {
    const auto first = static_cast<size_t>(std::ranges::find(at, at[i]) - at.begin());
    if (first == i) continue;
    fail(ErrorKind::usage,
         "data.series.columns: {} and {} are the same column, number {}. Name each column once.",
         excerpt(input.columns[first]), excerpt(input.columns[i]), at[i] + 1);
  }
  for (const std::string& target : input.targets) {
    if (std::ranges::count(input.targets, target) == 1) continue;
    fail(ErrorKind::usage, "data.series.targets: {} is named twice. Name each column once.",
         excerpt(target));
  }
}

RunData open_series(const Config& config, Partition part) {
  const DataConfig& data = config.data;
  if (data.series.columns.empty()) {
    fail(ErrorKind::usage,
         "data.series.columns: expected names or numbers of columns, got none. Add for example "
         "data.series.columns=[2].");
  }
  SeriesInput input{
      .columns = data.series.columns,
      .targets = data.series.targets.empty() ? data.series.columns : data.series.targets,
      .window = data.series.window,
      .horizon = data.series.horizon,
      .season = data.series.season,
      .log = data.series.log,
      .difference = data.series.difference,
      .header = data.header};
  const auto initial = initial_input(config);
  const auto* const kept = kept_input<SeriesInput>(initial);
  if (kept) input.names = kept->names;
  if (kept) input.step_seconds = kept->step_seconds;
  RunData run;
  run.part = part;
  const auto rules = static_cast<int>(data.rules);
  const Series train = read_series(data.train, input, data.max_bad, rules);
  check_reading(rules, run.notes, [&] { refuse_doubled_columns(input, train); });
  input.names = train.names;
  input.step_seconds = train.step_seconds;
  note_bad_rows(train.bad, run);
  add_notes(train.notes, "data.train", run);
  for (size_t i = 0; i < input.columns.size(); ++i) {
    std::vector<double> values;
    for (int64_t row = 0; row < train.rows(); ++row) values.push_back(train.at(row, i));
    add_note("data.train", placeholder_note(std::move(values), input.column_names()[i]), run);
  }
  const int64_t few = config.train.overfit_batches * config.train.batch_size;  // 0: all
  WindowRange range{.begin = 0, .end = train.rows(), .stride = data.series.stride, .most = few};
  const auto fit = [&] {
    fit_scaling(train, range, input);
    add_note("data.train", constant_note(input.scaling, input.column_names()), run);
    keep_scaling(initial, kept, input, run);
    if (kept && kept->targets == input.targets && kept->horizon == input.horizon) {
      input.target_scaling = kept->target_scaling;  // as the head has learned
    }
  };
  Split split;
  if (data.val.empty()) {  // the last rows are forecast, from windows that may begin before them
    range.end = first_validation_row(train.rows(), data.val_split);
    fit();
    split.val = cut_windows(
        train, {.begin = range.end, .end = train.rows(), .stride = data.series.stride}, input);
  } else {
    fit();
    const Series other = read_series(data.val, input, data.max_bad, rules);
    note_bad_rows(other.bad, run);
    add_notes(other.notes, "data.val", run);
    split.val =
        cut_windows(other, {.begin = 0, .end = other.rows(), .stride = data.series.stride}, input);
  }
  split.train = cut_windows(train, range, input);
  if (few > 0) split.val = split.train;
  run.signature.input = std::move(input);
  run.train_contents = std::move(split.train.contents);
  run.val_contents = std::move(split.val.contents);
  run.val_hashes = std::move(split.val.hashes);
  // Without data.val windows forecast rows of their own, though a part of the series may repeat.
  if (!data.val.empty()) note_shared(config, run);
  make_sources(config, std::move(split), run);
  return run;
}

}  // namespace

RunData open_sequences(const Config& config, Partition part, KeepExamples keep) {
  switch (config.data.kind) {
    case DataKind::text:
      return open_text(config, part, keep);
    case DataKind::language:
      return open_language(config, part);
    case DataKind::rows:
      return open_rows(config, part, keep);
    case DataKind::series:
      return open_series(config, part);
    case DataKind::images:
      break;
  }
  fail(ErrorKind::internal, "open_sequences: images are no sequences");
}

}  // namespace whisker
