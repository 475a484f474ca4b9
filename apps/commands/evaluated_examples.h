// What `whisker evaluate` writes about each image, text or row: a CSV file of all, and its
// report.
#pragma once

#include "core/communicator/rank_group.h"
#include "core/io/outputs.h"
#include "core/tensor/tensor.h"
#include "data/dataset.h"
#include "train/report/evaluation_report.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct EvaluatedExample {
  int64_t number = 0;  ///< among all
  std::string path;    ///< of an image or a text's file; "file:line" of a row
  int64_t label = 0;
  int64_t predicted = 0;
  double loss = 0;                   ///< -log of the label's probability
  std::vector<float> probabilities;  ///< (classes)
  std::string shown = {};            ///< a text, or a row's values; "" for an image
  std::vector<std::pair<double, double>> curve = {};  ///< see shown_curve()
};

/// The example that one row of probabilities is, without number and path.
EvaluatedExample evaluated_example(int64_t label, std::vector<float> probabilities);

/// The examples of a rank, batch by batch.
class OwnExamples {
 public:
  /// Adds probabilities (N, classes) as an OutputObserver.
  void add(const Tensor& probabilities, const Batch& batch);
  /// Collective: on rank 0 those of all ranks, by number; elsewhere nothing.
  std::vector<EvaluatedExample> of_all_ranks(RankGroup& ranks);

 private:
  std::vector<EvaluatedExample> own_;
};

/// Columns path, label, predicted, loss, and "probability CLASS" of each class. Relative paths
/// begin at `folder` in place of the current one; "": as they are.
std::string predictions_csv(const std::vector<EvaluatedExample>& examples,
                            const std::vector<std::string>& classes,
                            const std::filesystem::path& folder = {});

/// Whether a file's content is such a CSV, by its columns.
bool is_predictions_csv(std::string_view content);

/// The CSV file of `predictions` and the page `report`; of an empty path, nothing.
class EvaluatedFiles {
 public:
  /// Opens them: throws as Outputs.
  EvaluatedFiles(Outputs& outputs, const std::string& predictions, const std::string& report);

  bool any() const { return predictions_ || page_; }
  /// A file or folder that the examples come from: throws usage where an output is it or lies in
  /// it. Of files in a folder, after it.
  void add_input(const std::filesystem::path& input);
  /// Calls `print`, then writes both files: each of the three also where one before it fails, which
  /// is thrown at the end. Returns what `print` does.
  int write(const std::function<int()>& print, const std::vector<EvaluatedExample>& examples,
            EvaluationRecord record);

 private:
  void write_predictions(const Network& network, const std::vector<EvaluatedExample>& examples);

  Outputs& outputs_;
  std::unique_ptr<OutputFile> predictions_, page_;
};

}  // namespace whisker
