// Defaults of the dataset interface, and stacking.
#include "data/dataset.h"

#include "core/error.h"

#include <algorithm>

namespace whisker {
namespace {

void copy_image(const Tensor& image, std::span<float> to) {
  const auto from = image.data<const float>();
  if (from.size() != to.size()) {
    fail(ErrorKind::usage,
         "dataset: every example must have the first one's shape, got {} with {} values where {} "
         "are expected. Resize the examples or give the loader a collate function.",
         image.shape(), from.size(), to.size());
  }
  std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

Sample Dataset::sample(SampleKey key) const {
  return get(key.index);
}

Shape Dataset::sample_shape() const {
  return get(0).input.shape();
}

int64_t Dataset::write(SampleKey key, std::span<float> image) const {
  const Sample one = sample(key);
  copy_image(one.input, image);
  return one.label;
}

int64_t Dataset::pack(SampleKey, ImageRows&, int64_t) const {
  fail(ErrorKind::usage,
       "dataset: its examples are no images that a device could finish. Override pack(), or "
       "leave LoaderOptions::images_for empty.");
}

Batch stack_samples(std::span<const Sample> samples, const BatchKey&) {
  if (samples.empty()) fail(ErrorKind::usage, "stack_samples: expected at least one example");
  const Shape& one = samples.front().input.shape();
  std::vector<int64_t> extents{static_cast<int64_t>(samples.size())};
  extents.insert(extents.end(), one.begin(), one.end());
  Batch batch;
  batch.inputs = empty(Shape(extents));
  batch.labels = empty({extents.front()}, {.dtype = DType::i64});
  const auto images = batch.inputs.data<float>();
  const auto labels = batch.labels.data<int64_t>();
  const auto count = static_cast<size_t>(one.count());
  for (size_t i = 0; i < samples.size(); ++i) {
    copy_image(samples[i].input, images.subspan(i * count, count));
    labels[i] = samples[i].label;
  }
  return batch;
}

}  // namespace whisker
