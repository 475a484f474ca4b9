// What `whisker evaluate` writes about each image: a CSV file of all, and a page of the worst.
#pragma once

#include "core/io/outputs.h"
#include "data/images/image_folder.h"
#include "train/model/network.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct EvaluatedImage {
  std::string path;
  int64_t label = 0;
  int64_t predicted = 0;
  double loss = 0;                   ///< -log of the label's probability
  std::vector<float> probabilities;  ///< (classes)
};

/// Of one row of probabilities.
EvaluatedImage evaluated_image(std::string path, int64_t label, std::vector<float> probabilities);

/// Columns path, label, predicted, loss, and "probability CLASS" of each class.
std::string predictions_csv(const std::vector<EvaluatedImage>& images,
                            const std::vector<std::string>& classes);

/// Whether a file's content is such a CSV, by its columns.
bool is_predictions_csv(std::string_view content);

/// The CSV file of `predictions` and the page `out`; of an empty path, nothing.
class EvaluatedFiles {
 public:
  /// Opens them: throws as Outputs.
  EvaluatedFiles(Outputs& outputs, const std::string& predictions, const std::string& out);

  /// Throws usage where an output is one of the images, or lies in a folder among `given`, the
  /// files and folders that the images come from.
  void add_inputs(const ImageFolder& images, std::span<const std::string> given);
  /// Writes both, the second one also where the first one fails; throws what failed first.
  void write(const Network& network, std::vector<EvaluatedImage> images, size_t worst,
             const std::string& weights);

 private:
  Outputs& outputs_;
  std::unique_ptr<OutputFile> predictions_, page_;
};

}  // namespace whisker
