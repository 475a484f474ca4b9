#include "train/picture_classifier.h"

#include "core/autograd.h"
#include "core/io/file.h"
#include "data/decode.h"

#include <algorithm>

namespace whisker {
namespace {

constexpr size_t most_file_bytes = size_t{1} << 30;

// The network's input for one file, written to `out`; throws data.
void read_picture(const std::string& path, const Preprocess& preprocess, std::span<float> out,
                  PreprocessScratch& scratch) {
  const std::string bytes = read_file(path, most_file_bytes, ErrorKind::data);
  const Picture picture = decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  apply(preprocess, picture, out, scratch);
}

}  // namespace

void classify_pictures(const Classifier& classifier, const std::vector<std::string>& paths,
                       int64_t batch_size,
                       const std::function<void(const PictureResult&)>& report) {
  const NoGrad no_grad;
  const Preprocess& preprocess = classifier.preprocess();
  const PictureSize size = preprocess.output();
  const Shape picture{size.height, size.width, preprocess.channels};
  const auto pixels = static_cast<size_t>(picture.count());
  const size_t classes = classifier.classes().size();
  PreprocessScratch scratch;
  std::vector<float> staged(static_cast<size_t>(batch_size) * pixels);
  for (size_t first = 0; first < paths.size(); first += static_cast<size_t>(batch_size)) {
    const size_t last = std::min(paths.size(), first + static_cast<size_t>(batch_size));
    std::vector<PictureResult> results;
    size_t rows = 0;
    for (size_t i = first; i < last; ++i) {
      PictureResult result{.path = paths[i], .probabilities = {}, .error = {}};
      try {
        read_picture(paths[i], preprocess, std::span(staged).subspan(rows * pixels, pixels),
                     scratch);
        ++rows;
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::data) throw;
        result.error = error.what();
      }
      results.push_back(std::move(result));
    }
    Tensor scores;
    if (rows > 0) {
      const Tensor images = empty({static_cast<int64_t>(rows), picture[0], picture[1], picture[2]});
      std::copy_n(staged.begin(), rows * pixels, images.data<float>().begin());
      scores = classifier.probabilities(classifier.logits(images)).to(cpu_device);
    }
    size_t row = 0;
    for (PictureResult& result : results) {
      if (result.error.empty()) {
        const auto own = scores.data<const float>().subspan(row++ * classes, classes);
        result.probabilities.assign(own.begin(), own.end());
      }
      report(result);
    }
  }
}

}  // namespace whisker
