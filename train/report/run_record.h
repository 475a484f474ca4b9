// What a run folder holds, read for its report: nothing but its own files. What an older run, or
// one that just began, lacks is empty here.
#pragma once

#include "core/io/json.h"
#include "core/io/yaml.h"
#include "train/metrics/validation_examples.h"
#include "train/report/report_examples.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace whisker {

/// Names and numbers of a line of metrics.jsonl; what is null there is NaN.
using LoggedValues = std::map<std::string, double, std::less<>>;
/// NaN where it is not there.
double logged_value(const LoggedValues& values, std::string_view name);

/// The naive forecast's errors of Metrics::write(), where it has them, as naive_mae and naive_rmse.
void add_naive_errors(const JsonValue& metrics, LoggedValues& values);

struct LoggedEpoch {
  double epoch = 0;  ///< from 1; within an epoch that a time budget ended less than its number
  LoggedValues values;
  std::array<double, 5> times{};  ///< seconds by Stage
  bool has_times = false;
  bool best = false;
};

/// The record of the weights in best.safetensors.
struct BestRecord {
  int64_t epoch = 0;            ///< from 1; 0: not known
  int64_t examples = -1;        ///< validated; -1: not known
  std::string of = "examples";  ///< or "images", "texts", "rows", "windows" or "tokens"
  LoggedValues values;          ///< its figures
  std::string precision;        ///< "f32"
  uint64_t parameters = 0;      ///< without the statistics of norms; 0: not known
};

/// Counts by label and prediction: confusion (classes, classes).
struct ClassCounts {
  std::vector<std::string> classes;
  std::vector<int64_t> confusion;
  bool empty() const { return confusion.empty(); }
  int64_t count(size_t label, size_t predicted) const {
    return confusion[label * classes.size() + predicted];
  }
};

/// Texts of local_time_text() and utc_text(); behind those of resumes "at epoch 8, step 2,053".
struct RunDates {
  std::string began;                 ///< "": not known
  std::vector<std::string> resumed;  ///< as far as they are known
  std::string first_event;           ///< of TensorBoard's first file; "": there is none
};

struct RunRecord {
  std::string name;   ///< of the folder
  YamlNode config;    ///< null where it cannot be read
  std::string told;   ///< see told_of_run()
  std::string ended;  ///< the last line of the log that says how the run ended; ""
  RunDates dates;
  std::vector<std::pair<double, LoggedValues>> steps;  ///< by epochs passed; in order
  std::vector<LoggedEpoch> epochs;                     ///< validations between epochs, too
  std::optional<BestRecord> best;
  std::optional<LoggedValues> test;  ///< of data.test
  double seconds = 0;                ///< of training
  std::vector<std::pair<std::string, std::string>> environment;
  ClassCounts classes;                           ///< of the validation
  std::optional<ValidationExamples> validation;  ///< of the best weights
  std::optional<ReportExamples> examples;        ///< images and texts to show
  std::vector<std::string> problems;             ///< files that could not be read, and why

  /// A scalar of the configuration, or `otherwise`.
  std::string setting(std::string_view path, std::string_view otherwise = "") const;
  /// The metric that selected the best weights: "accuracy", "mae", "loss", ...
  std::string metric() const;
  double figure(std::string_view name) const;  ///< of the best weights; NaN: not known
};

/// Throws usage where `folder` holds no config.yaml. A file that cannot be read is a problem in the
/// result.
RunRecord read_run_record(const std::filesystem::path& folder);

/// `text` without the folders of absolute paths: "/home/ann/data/cats" is "…/cats".
std::string without_folders(std::string_view text);

/// What a log says without the lines of epochs, tables and times: what was read, assumed and
/// skipped. Without folders, and without what a resume says again.
std::string told_of_run(std::string_view log);
/// When the run of a log began, and when it went on.
RunDates dates_of_run(std::string_view log);
/// The line of a log that says how the run ended, without folders; "" where it goes on.
std::string how_it_ended(std::string_view log);

}  // namespace whisker
