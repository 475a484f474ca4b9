// What `whisker classify` writes about each image beside its result: a heat map, and a line of a
// CSV file with its embedding.
#pragma once

#include "train/inference/image_classifier.h"

#include <filesystem>
#include <set>
#include <string>

namespace whisker {

/// The heat map of a result as a JPEG file's bytes; empty without one.
std::string heat_map_jpeg(const Prediction& result);

/// A JPEG file per image in the folder `heat_maps`, and the CSV file `embeddings`; of an empty
/// path, nothing.
class ClassifiedImages {
 public:
  /// Makes the folder.
  ClassifiedImages(std::string heat_maps, std::string embeddings);

  /// Of an image that could be read: writes the heat map under the image's name, with a number
  /// where two would have the same; keeps the embedding.
  void add(const Prediction& result, const std::string& jpeg);
  /// Writes the embeddings.
  void finish() const;

 private:
  void write_heat_map(const std::filesystem::path& image, const std::string& jpeg);

  std::string heat_maps_, embeddings_;
  std::set<std::string> names_;  // of heat maps
  std::string csv_;
};

}  // namespace whisker
