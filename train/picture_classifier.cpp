#include "train/picture_classifier.h"

#include "core/autograd.h"
#include "core/io/file.h"
#include "data/decode.h"
#include "train/picture_input.h"

#include <algorithm>

namespace whisker {
namespace {

// Throws data.
Picture read_picture(const std::string& path) {
  return decode(bytes_of(read_file(path, max_picture_bytes, ErrorKind::data)));
}

}  // namespace

void classify_pictures(const Network& network, const std::vector<std::string>& paths,
                       int64_t batch_size, const std::function<void(const Prediction&)>& report) {
  const NoGrad no_grad;
  PictureInput input(network, batch_size);
  for (size_t first = 0; first < paths.size(); first += static_cast<size_t>(batch_size)) {
    const size_t last = std::min(paths.size(), first + static_cast<size_t>(batch_size));
    std::vector<Prediction> results;
    for (size_t i = first; i < last; ++i) {
      Prediction result{.name = paths[i], .probabilities = {}, .error = {}};
      try {
        input.add(read_picture(paths[i]));
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
