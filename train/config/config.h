// The typed configuration of a training run. config_fields.cpp describes every field once: key,
// range, meaning. Lengths are epochs unless the name says otherwise.
#pragma once

#include "core/io/yaml.h"
#include "data/images/image_dataset.h"
#include "data/sequences/text_input.h"
#include "data/transforms/augment_sampler.h"
#include "data/transforms/preprocess.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/config/schema.h"

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

enum class DataKind : uint8_t { images, text, language, rows, series };
enum class DecodeKind : uint8_t { fast, exact };
enum class SamplingKind : uint8_t { shuffle, balanced, weighted, sequential };
enum class LossKind : uint8_t { automatic, cross_entropy, binary_cross_entropy };
enum class ClassWeighting : uint8_t { none, balanced };
enum class PrecisionKind : uint8_t { automatic, f32, bf16, f16 };
/// f1: f1_macro or f1_class in a new run (resolve_config), its own definition in an old one.
enum class MetricKind : uint8_t { automatic, accuracy, f1, mae, rmse, loss, f1_macro, f1_class };
enum class FeatureKind : uint8_t { computed, cached };
enum class MemoryMode : uint8_t { growth, preallocate };

struct TextConfig {
  TokenLevel level = TokenLevel::characters;
  TokenRules rules = TokenRules::unicode;
  bool lowercase = false;
  int64_t min_count = 1;
  int64_t max_vocabulary = 0;  // 0: no limit
  int64_t max_length = 0;      // tokens; 0: no limit
  KeptEnd keep = KeptEnd::first;
  std::string text_column = "2";
  int64_t steps = 64;  // of a language model
};

struct RowsConfig {
  int64_t features = 1;
};

struct SeriesConfig {
  std::vector<std::string> columns;
  std::vector<std::string> targets;  // empty: all columns
  int64_t window = 12;
  int64_t horizon = 1;
  int64_t stride = 1;
  int64_t season = 0;
  bool log = false;
  int64_t difference = 0;
};

struct DataConfig {
  DataKind kind = DataKind::images;
  std::string train;
  std::string val;
  std::string test;
  double val_split = 0;
  std::string label_pattern;
  std::string csv;
  int64_t image_size = 128;
  int64_t train_image_size = 0;  // 0: image_size
  int64_t channels = 3;
  int64_t resize_short = 0;
  ResizeMode resize_mode = ResizeMode::crop;
  Interpolation interpolation = Interpolation::bilinear;
  bool antialias = true;
  double scale = 1.0 / 255;
  std::vector<double> mean = {0};  // one number serves all channels
  std::vector<double> std = {1};
  DecodeKind decode = DecodeKind::fast;
  AutoInt gpu_decode;  // percent
  CacheKind cache = CacheKind::none;
  double cache_limit_mib = 2048;
  std::string cache_file;
  AutoInt workers;
  int64_t prefetch = 4;
  SamplingKind sampling = SamplingKind::shuffle;
  double max_bad = 0.01;
  int64_t max_pixels = 100'000'000;
  int64_t rules = newest_data_rules;  // Note [Data rules]; of an older run, without the key: 1
  AutoInt png_bits;                   // DecodeRules; auto: as the training images have them
  int64_t buckets = 8;
  std::string label_column = "1";
  Header header = Header::automatic;
  TextConfig text;
  RowsConfig rows;
  SeriesConfig series;
};

struct LossConfig {
  LossKind kind = LossKind::automatic;
  double label_smoothing = 0;
  ClassWeighting class_weights = ClassWeighting::none;
};

struct EmaConfig {
  double decay = 0;  // 0: off
  bool warmup = true;
};

struct EarlyStopping {
  int64_t patience = 0;  // epochs without improvement; 0: off
  double min_delta = 0;
};

/// The largest train.batch_size.
inline constexpr int64_t largest_batch_size = 65536;

struct TrainSettings {
  int64_t epochs = 10;
  int64_t batch_size = 32;         // over all ranks; 0: auto
  int64_t batch_size_per_gpu = 0;  // 0: batch_size counts
  int64_t accumulate = 1;
  bool drop_last = false;
  bool sync_batch_norm = false;
  double time_budget_minutes = 0;  // 0: none
  MetricKind metric = MetricKind::automatic;
  std::string positive_class;
  EarlyStopping early_stopping;
  int64_t log_every = 50;       // steps
  int64_t validate_every = 1;   // epochs
  int64_t overfit_batches = 0;  // 0: the whole set
  int64_t profile = 0;          // batches in trace.json; 0: none
  int64_t histogram_every = 0;  // steps, of histograms.jsonl; 0: none
  bool log_ranks = false;       // log.rank1.txt, ...
  bool report = true;           // report.html
  bool tensorboard = false;     // tensorboard/events.out.tfevents...
};

struct CheckpointConfig {
  int64_t every = 0;  // steps; 0: at the end of each epoch
  int64_t keep = 1;   // generations in last/
};

struct InitConfig {
  std::string from;
  std::string key;  // of a checkpoint: see open_weights()
  std::vector<std::string> skip;
  bool new_head = true;
  std::string run;  // the folder of a run that is read again, whose input stays; never printed
};

struct MemoryConfig {
  MemoryMode mode = MemoryMode::growth;
  std::string limit;  // "2GiB", "0.5" of the device's memory, "": none
};

struct RuntimeConfig {
  int64_t threads = 0;  // 0: all cores
  bool winograd = true;
  bool graph = true;  // captured steps, on a GPU
  MemoryConfig memory;
};

struct Config {
  std::string name = "run";
  std::string runs = "runs";
  int64_t seed = 1;
  std::string device = "auto";
  PrecisionKind precision = PrecisionKind::automatic;
  bool deterministic = false;
  DataConfig data;
  AugmentConfig augment;
  YamlNode model;
  InitConfig init;
  std::vector<std::string> freeze;
  int64_t unfreeze_at = 0;  // epoch; 0: never
  double unfreeze_last = 1;
  bool freeze_norm = false;
  FeatureKind features = FeatureKind::computed;
  LossConfig loss;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  EmaConfig ema;
  TrainSettings train;
  CheckpointConfig checkpoint;
  RuntimeConfig runtime;
  std::set<std::string, std::less<>> given = {};  ///< keys that the file or an override sets
};

/// With init.from, these keys come from that weights file unless they are given.
constexpr std::array<std::string_view, 9> preprocess_keys = {
    "data.image_size",    "data.resize_short", "data.resize_mode",
    "data.interpolation", "data.antialias",    "data.channels",
    "data.scale",         "data.mean",         "data.std"};

/// Where files and folders lie: no part of what a run computes.
constexpr std::array<std::string_view, 7> path_keys = {
    "runs", "data.train", "data.val", "data.test", "data.csv", "data.cache_file", "init.from"};

/// Visits every field of `config`, in the order in which it prints.
void visit_fields(FieldVisitor& visitor, Config& config);

/// How an override of data.train treats the file's data.val.
enum class OtherTrain : uint8_t { drops_val, keeps_val };

/// Reads a file and applies `overrides` ("train.epochs=3"). An override of data.train drops the
/// file's data.val and data.test, which belong to other data. With keeps_val the file is that of a
/// run, whose data only moved; without data.rules it keeps the rules of before that key. One of
/// train.batch_size drops the file's train.batch_size_per_gpu, and the other way round. Throws
/// usage with file:line:column, the key's path, expected and got, and the nearest known key.
Config read_config(const std::string& path, const std::vector<std::string>& overrides,
                   OtherTrain other_train = OtherTrain::drops_val);
/// The configuration in the folder of a run, which only moved: keeps_val. Keys that are younger
/// than the run have the values that it was trained with: TokenRules::ascii, and no header where
/// columns of text are numbered.
Config read_run_config(const std::string& path, const std::vector<std::string>& overrides = {});
Config read_config_text(const std::string& text, const std::string& name,
                        const std::vector<std::string>& overrides = {});

/// The configuration as YAML, which reads back as the same configuration. Omits keys that init.from
/// decides: see resolve_config().
std::string print_config(Config config);
/// Whether a resumed run may have another value under `key` ("train.epochs").
bool may_change_on_resume(std::string_view key);
/// Everything else of the configuration, as YAML.
std::string config_kept_on_resume(const Config& config);
/// The first key in which `now` differs from `before` (from config_kept_on_resume()), with both
/// values; "" when the run may be resumed with it. Keys missing in `before` had their defaults,
/// data.rules 1.
/// Throws checkpoint when `before` cannot be read.
std::string changed_on_resume(const std::string& before, const Config& now);

/// JSON Schema (draft 2020-12) of the configuration, for editors.
std::string config_schema();
/// Every key with default, values and meaning, as Markdown tables.
std::string config_reference();

/// One key with its listable values, for shell completion.
struct ConfigKey {
  std::string path;                 ///< "schedule.kind"
  std::vector<std::string> values;  ///< an enum's names, true and false, auto; empty for others
  bool is_text = false;             ///< any text, such as a path
};

/// The keys that `section.key=value` can set, in printed order, without lists of maps.
std::vector<ConfigKey> config_keys();

}  // namespace whisker
