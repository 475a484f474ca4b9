// What `whisker classify` writes about each image beside its result: a heat map, and a line of a
// CSV file with its embedding.
#pragma once

#include "core/io/outputs.h"
#include "train/inference/image_classifier.h"

#include <exception>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// How a heat map's comment names the weights that made it.
std::string heat_map_weights(const std::string& weights);
/// The heat map of a result as a JPEG file's bytes, with a comment that says so and ends with
/// `weights`; empty without one, and where it is larger than a JPEG file can be.
std::string heat_map_jpeg(const Prediction& result, const std::string& weights);
/// Whether a file's content is one, unchanged.
bool is_heat_map(std::string_view content);
/// Whether a file's content is a CSV of embeddings, by its columns.
bool is_embeddings_csv(std::string_view content);

/// The name of a heat map: the image's path below the longest of `folders` that it lies in, with
/// the class and its probability: "cat/0_tabby cat_0.9312.jpg".
std::filesystem::path heat_map_name(const std::filesystem::path& image,
                                    std::span<const std::string> folders,
                                    std::string_view class_name, float probability);

/// A JPEG file per image in the folder `heat_maps`, and the CSV file `embeddings`; of an empty
/// path, nothing.
class ClassifiedImages {
 public:
  /// Opens them: throws as Outputs. `folder` is that of images given one by one. Heat maps of other
  /// weights than `weights`, of heat_map_weights(), are not replaced.
  ClassifiedImages(Outputs& outputs, const std::string& heat_maps, const std::string& embeddings,
                   const std::string& folder, std::string weights);

  /// Images that come next, and all folders that were walked so far: throws usage where an output
  /// lies among them.
  void add_inputs(std::span<const std::string> images, std::span<const std::string> folders);
  /// heat_map_jpeg() with these weights.
  std::string heat_map(const Prediction& result) const { return heat_map_jpeg(result, weights_); }
  /// Writes the heat map of an image that could be read, with a number where two would have the
  /// same name; adds the embedding. What fails is thrown by finish(): the results go on.
  void add(const Prediction& result, const std::string& jpeg, std::span<const std::string> classes);
  /// Puts the embeddings in their place; throws what could not be written.
  void finish();

 private:
  void write_embedding(const Prediction& result);

  Outputs& outputs_;
  std::string heat_maps_, weights_;
  std::vector<std::string> folders_;  // that names begin with: the images' own, then those walked
  std::unique_ptr<OutputFile> embeddings_;
  bool has_header_ = false;
  std::set<std::filesystem::path> names_;  // of heat maps
  std::exception_ptr failed_;
};

}  // namespace whisker
