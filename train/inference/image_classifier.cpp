#include "train/inference/image_classifier.h"

#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "core/ops/ops.h"
#include "data/codec/decode.h"
#include "train/inference/class_activation.h"
#include "train/inference/image_input.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace whisker {
namespace {

// Throws data.
Image read_image(const std::string& path) {
  return decode(bytes_of(read_file(path, max_image_bytes, ErrorKind::data, Source::stream)));
}

}  // namespace

void report_predictions(const Tensor& scores, std::span<Prediction> results,
                        const std::function<void(const Prediction&)>& report) {
  int64_t row = 0;
  for (Prediction& result : results) {
    if (result.error.empty()) {
      const auto classes = static_cast<size_t>(scores.extent(1));
      const auto own =
          scores.data<const float>().subspan(static_cast<size_t>(row++) * classes, classes);
      result.probabilities.assign(own.begin(), own.end());
    }
    report(result);
  }
}

namespace {

// Row i of `inputs` is `images[i]`, and that of `results[i]`.
void add_heat_maps(const Network& network, const Tensor& inputs, std::span<const Image> images,
                   std::span<Prediction* const> results) {
  std::vector<int64_t> classes;
  for (const Prediction* result : results) {
    classes.push_back(std::ranges::max_element(result->probabilities) -
                      result->probabilities.begin());
  }
  const std::vector<ActivationMap> maps = class_activation_maps(network, inputs, classes);
  for (size_t row = 0; row < results.size(); ++row) {
    results[row]->heat_map =
        with_heat(seen_image(network.preprocess(), images[row]), maps[row]);
  }
}

void add_rows(const Tensor& values, std::span<Prediction* const> results,
              std::vector<float> Prediction::*member) {
  const auto width = static_cast<size_t>(values.extent(1));
  for (size_t row = 0; row < results.size(); ++row) {
    const auto own = values.data<const float>().subspan(row * width, width);
    (results[row]->*member).assign(own.begin(), own.end());
  }
}

Tensor fill_in_values(const Network& network, ImageInput& input, std::span<const Image> images,
                      std::span<Prediction* const> results, const ImageClassifierOptions& options) {
  const NoGrad no_grad;
  for (const Image& image : images) input.add(image);
  Tensor inputs = input.take();
  Tensor logits;
  if (options.embedding) {
    const size_t inner = embedding_layer(network), last = network.model().net->size();
    const Tensor values = network.run_layers({0, inner}, inputs);
    add_rows(pooled(values), results, &Prediction::embedding);
    logits = network.run_layers({inner, last}, values).to(DType::f32);
  } else {
    logits = network.outputs(inputs);
  }
  Tensor scores = network.probabilities(logits);
  if (options.flip) {
    for (const Image& image : images) input.add(image, true);
    const Tensor mirrored = network.probabilities(network.outputs(input.take()));
    scores = affine(add(scores, mirrored), 0.5, 0);
  }
  add_rows(scores.to(cpu_device), results, &Prediction::probabilities);
  return inputs;
}

}  // namespace

void classify_images(const Network& network, const NextInputs& next,
                     const ImageClassifierOptions& options,
                     const std::function<void(const Prediction&)>& report) {
  ImageInput input(network, options.batch_size);
  for (;;) {
    const std::vector<std::string> paths = next(static_cast<size_t>(options.batch_size));
    if (paths.empty()) return;
    std::vector<Prediction> results(paths.size());
    std::vector<Prediction*> read;
    std::vector<Image> images;
    for (size_t i = 0; i < paths.size(); ++i) {
      results[i].name = paths[i];
      try {
        images.push_back(read_image(paths[i]));
        read.push_back(&results[i]);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data) throw;
        results[i].error = error.what();
      }
    }
    if (!read.empty()) {
      const Tensor inputs = fill_in_values(network, input, images, read, options);
      if (options.heat_map) add_heat_maps(network, inputs, images, read);
    }
    for (const Prediction& result : results) report(result);
  }
}

}  // namespace whisker
