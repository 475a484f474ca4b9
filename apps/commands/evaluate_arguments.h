// What `whisker evaluate` was asked to do.
#pragma once

#include "apps/terminal/facts.h"
#include "data/loader/loader.h"
#include "train/data/run_split.h"
#include "train/metrics/validation_examples.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct EvaluateArguments {
  std::string weights;
  std::vector<std::string> inputs;
  std::string split;  // "": what `inputs` name
  std::string label_pattern;
  std::string csv;
  std::string label_column, text_column, positive_class;
  std::string header;  // "": as in training
  std::string predictions, report;
  size_t worst = 0;  // 0: not given
  bool force = false;
  bool json = false;
  bool null = false;
  bool mirror = false;  // --tta
  bool calibrate = false;
  std::string calibrated;  // -o, of --calibrate
  std::string device = "auto";
  std::string gpus;
  int64_t batch_size = 0;  // 0: 32, or that of a language model's training
  int workers = auto_workers;
  FactOptions facts;
  std::optional<PrecisionKind> precision;  // that of the file's validation

  /// Whether something is written about each example.
  bool each() const { return !predictions.empty() || !report.empty(); }
  /// How many probabilities are kept at most: --predictions writes all.
  int64_t scores() const {
    return predictions.empty() ? most_scores : std::numeric_limits<int64_t>::max();
  }
  /// What the weights are measured on, for the page.
  std::vector<std::string> data_names() const {
    std::vector<std::string> names = inputs;
    if (!csv.empty()) names.push_back("--csv " + csv);
    if (!split.empty()) names.push_back("--split " + split);
    return names;
  }
  /// What `split` is of the run's data.
  RunPart run_part() const {
    return {.split = split, .where = inputs.empty() ? "" : inputs.front()};
  }
};

}  // namespace whisker
