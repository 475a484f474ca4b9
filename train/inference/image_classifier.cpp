#include "train/inference/image_classifier.h"

#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "data/codec/decode.h"
#include "train/inference/image_input.h"

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

void classify_images(const Network& network, const NextInputs& next, int64_t batch_size,
                     const std::function<void(const Prediction&)>& report) {
  const NoGrad no_grad;
  ImageInput input(network, batch_size);
  for (;;) {
    const std::vector<std::string> paths = next(static_cast<size_t>(batch_size));
    if (paths.empty()) return;
    std::vector<Prediction> results;
    for (const std::string& path : paths) {
      Prediction result{.name = path, .probabilities = {}, .error = {}};
      try {
        input.add(read_image(path));
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data) throw;
        result.error = error.what();
      }
      results.push_back(std::move(result));
    }
    Tensor scores;
    if (input.count() > 0) {
      scores = network.probabilities(network.outputs(input.take())).to(cpu_device);
    }
    report_predictions(scores, results, report);
  }
}

}  // namespace whisker
