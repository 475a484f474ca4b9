// What `whisker evaluate` writes about each image, text or row: a CSV file of all, and its
// report.
#pragma once

#include "apps/commands/evaluate_arguments.h"
#include "apps/commands/metrics_report.h"
#include "core/io/outputs.h"
#include "train/metrics/validation_examples.h"
#include "train/model/network.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Columns path, label, predicted, loss, and "probability CLASS" of each class. Relative paths
/// begin at `folder` in place of the current one; "": as they are. All probabilities of `examples`
/// are known. `paths` (n): the file of an image or a text, "file:line" of a row.
std::string predictions_csv(const ValidationExamples& examples,
                            const std::vector<std::string>& paths,
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
  /// Prints the metrics, then writes both files: each of the three also where one before it fails,
  /// which is thrown at the end. Returns what print_metrics() does.
  int write(const Network& network, const EvaluateArguments& arguments, const Measured& measured);

 private:
  void write_predictions(const Measured& measured);

  Outputs& outputs_;
  std::unique_ptr<OutputFile> predictions_, page_;
};

}  // namespace whisker
