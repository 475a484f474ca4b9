// Predictions of classifiers, and the classifier of image files: reads and decodes exactly, on up
// to 16 cores, preprocesses as in training, and runs in batches.
#pragma once

#include "core/tensor/tensor.h"
#include "data/codec/image.h"
#include "data/codec/sample_bits.h"
#include "train/model/network.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// A classifier's result for one example.
struct Prediction {
  std::string name;                  ///< path of an image, the text itself, "file:line" of a row
  std::vector<float> probabilities;  ///< (classes); empty when the example could not be read
  std::string error;                 ///< why it could not be read; else empty
  /// An image's embedding and heat map, where they are asked for: see ImageClassifierOptions.
  std::vector<float> embedding = {};
  Image heat_map = {};
};

struct ImageClassifierOptions {
  int64_t batch_size = 16;
  bool flip = false;       ///< average the probabilities of each image and its mirror image
  bool embedding = false;  ///< what goes into the last layer, see embedding_layer()
  bool heat_map = false;   ///< the most probable class's map over the whole image, see with_heat()
  /// Read the next batches while the network runs: where nobody waits for an answer before the next
  /// input. Batches then are full, whatever `next` returns.
  bool read_ahead = false;
  /// Samples above the network's png_bits are white; else an image with them is an error.
  bool clips = false;
  PngBits* deep_files = nullptr;   ///< unless null, becomes the ImageReader's
  int64_t* alpha_files = nullptr;  ///< likewise
};

/// The next examples to classify, at most `most`; empty: there are no more.
using NextInputs = std::function<std::vector<std::string>(size_t most)>;

/// Assigns the rows of `scores` (examples, classes), on the CPU, to the results without an error,
/// and reports all results in order. Throws as Network::check_outputs.
void report_predictions(const Network& network, const Tensor& scores, std::span<Prediction> results,
                        const std::function<void(const Prediction&)>& report);

/// Calls `report` once per path of `next`, in order. The paths of one call of `next` form a batch
/// of at most options.batch_size, but with options.read_ahead. Unreadable images are reported and
/// the rest continue.
void classify_images(const Network& network, const NextInputs& next,
                     const ImageClassifierOptions& options,
                     const std::function<void(const Prediction&)>& report);

/// Probabilities (N, classes), in host memory, of images in memory, as one batch. Decode files with
/// network.preprocess().rules, as classify_images() of paths does. Throws usage where there is no
/// image, and as Network::check_outputs.
Tensor classify_images(const Network& network, std::span<const Image> images);

}  // namespace whisker
