// What a validation measured of each example: validation.safetensors of a run folder, from which
// reports are drawn (docs/reference/formats.md).
#pragma once

#include "core/communicator/rank_group.h"
#include "core/tensor/tensor.h"
#include "data/dataset.h"
#include "train/model/signature.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Means over the classes, each of them against the rest.
struct RestAreas {
  double roc_auc = 0;            ///< scikit-learn's roc_auc_score(multi_class="ovr")
  double average_precision = 0;  ///< the mean of its average_precision_score()
  int64_t classes = 0;           ///< that the means are of: the others have no examples
  bool operator==(const RestAreas&) const = default;
};

/// In the order of the data. Of a classification everything but the last part, of a forecast only
/// the last one and contents.
struct ValidationExamples {
  std::string of;     ///< "images", "texts", "rows" or "windows"
  int64_t epoch = 0;  ///< whose weights were validated, from 1; 0: of no run

  std::vector<std::string> classes = {};  ///< names
  int64_t ranks = 0;                      ///< k: classes listed of each example, 5 at most
  std::vector<int32_t> labels = {};       ///< (n)
  std::vector<int32_t> ranked = {};       ///< (n, k), classes, the most probable first
  std::vector<float> probabilities = {};  ///< (n, k), theirs
  std::vector<float> losses = {};         ///< (n), example_loss() of the label
  std::vector<float> scores = {};  ///< (n, classes), all probabilities; empty where not collected
  std::optional<RestAreas> rest_areas = {};  ///< of a run, whose scores are not written
  /// (n), relative to the data's folder, bytes as on disk: of an image or a text's file; of a line
  /// "file:line". Empty where they are not known.
  std::vector<std::string> paths = {};
  /// (n), hashes by which an example is found in other runs: RunData::val_hashes. Empty where they
  /// are not known, and of images.
  std::vector<int64_t> contents = {};

  std::vector<std::string> targets = {};  ///< names of what is forecast
  int64_t horizon = 0;                    ///< steps
  int64_t every = 1;                      ///< of so many windows in a row the first one is here
  std::vector<float> predictions = {};    ///< (n, horizon, targets), in the units of the data
  std::vector<float> truths = {};         ///< the same shape

  bool operator==(const ValidationExamples&) const = default;
  bool is_forecast() const { return horizon > 0; }
  /// n.
  int64_t size() const;
  int32_t predicted(int64_t example) const { return ranked[static_cast<size_t>(example * ranks)]; }
  bool is_correct(int64_t example) const {
    return predicted(example) == labels[static_cast<size_t>(example)];
  }
  /// Whether probability() knows those of all classes.
  bool knows_all() const { return !scores.empty() || ranks == std::ssize(classes); }
  /// Whether all examples, if any, have the same label.
  bool has_one_class() const;
  /// The probability of one of an example's classes; 0 where it is not listed.
  float probability(int64_t example, int32_t of_class) const;
};

/// -log of a label's probability, 87.3 at most.
double example_loss(float probability);

/// Writes the file atomically; throws disk. Paths that are absolute are refused (internal).
void write_validation_examples(const std::filesystem::path& file,
                               const ValidationExamples& examples);
/// Throws checkpoint, naming the file and what is wrong with it, for anything that
/// write_validation_examples() does not write: any bytes are safe to read.
ValidationExamples read_validation_examples(const std::filesystem::path& file);

/// The most probabilities that an ExampleCollector keeps of an evaluation, 200 MB, and of a run's
/// validations, of which each second counts.
inline constexpr int64_t most_scores = 50'000'000, most_scores_of_run = 5'000'000;

/// The examples of a rank, batch by batch.
class ExampleCollector {
 public:
  /// `examples`: those of all ranks, as far as they are known; of windows as many are kept as hold
  /// 1,000,000 numbers. All probabilities of classes are kept where those of all examples are at
  /// most `scores`. Not for language models.
  ExampleCollector(const Signature& signature, int64_t examples, int64_t scores = 0);

  /// Adds probabilities (N, classes) as an OutputObserver, or forecasts (N, horizon x targets).
  void add(const Tensor& outputs, const Batch& batch);
  /// Collective: on rank 0 those of all ranks, in the order of the data, without paths; elsewhere
  /// nothing. The collector is empty then.
  ValidationExamples of_all_ranks(RankGroup& ranks);

 private:
  void add_classification(std::span<const float> probabilities, int64_t label, int64_t index);
  void add_forecast(std::span<const float> outputs, const ForecastBases& bases, int64_t window);

  ValidationExamples own_;  // in the order of the batches
  bool scores_;
  std::vector<int64_t> indices_;
};

}  // namespace whisker
