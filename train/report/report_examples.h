// The examples that a report shows: examples.safetensors of a run folder. Made at a run's end, when
// the data and the best weights are at hand; a report is drawn from the run folder alone.
#pragma once

#include "data/codec/image.h"
#include "data/images/image_dataset.h"
#include "train/config/config.h"
#include "train/data/run_data.h"
#include "train/metrics/validation_examples.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

struct ReportExample {
  int64_t index = -1;  ///< among the validation examples; of training images -1
  std::string label = {};
  std::string text = {};                                   ///< of a text or row
  std::vector<std::pair<std::string, double>> words = {};  ///< see weightiest_tokens()
  std::vector<std::pair<double, double>> curve = {};       ///< of a long row: see shown_curve()
  std::string seen = {}, heat = {};                        ///< JPEG files; of an image
};

struct ReportExamples {
  int64_t epoch = 0;  ///< of the weights, from 1
  std::vector<ReportExample> mistakes = {}, training = {}, validation = {};
  std::string left_out = {};  ///< what is missing, and why; ""
};

/// Where they come from; the folders of images are empty for other data.
struct ExampleSources {
  const Config& config;
  const ImageFolders& images;
  const ImageDataset* training = nullptr;  ///< augmented images
  double seconds = 0;                      ///< of training: 1 % of it, or 2 s, may be spent
};

/// Makes them from the run's best weights and its validation.safetensors, on the CPU, and writes
/// the file atomically. A file of the same weights stays. Throws what reading and writing throw.
void write_report_examples(const std::filesystem::path& run, const ExampleSources& sources);

/// Throws checkpoint for anything that write_report_examples() does not write.
ReportExamples read_report_examples(const std::filesystem::path& file);

/// A JPEG file of the image, shrunk to `most_pixels` a side.
std::string shown_jpeg(const Image& image, int most_pixels = 224);

/// The numbers of the validation examples that were classified wrong, the largest loss first.
std::vector<int64_t> worst_mistakes(const ValidationExamples& examples, size_t most);
inline constexpr size_t shown_mistakes = 12;

}  // namespace whisker
