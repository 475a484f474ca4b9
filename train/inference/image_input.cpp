#include "train/inference/image_input.h"

#include "core/backend/backend.h"

#include <algorithm>
#include <utility>

namespace whisker {

ImageInput::ImageInput(const Network& network, int64_t rows)
    : preprocess_(network.preprocess()),
      device_(network.arena().device()),
      dtype_(network.arena().compute_dtype()),
      rows_(rows) {
  if (device_.kind != DeviceKind::cuda) return;
  pipeline_ = backend_of(device_).make_image_pipeline();
  pool_ = std::make_shared<PinnedPool>(device_);
}

Shape ImageInput::batch_shape() const {
  const ImageSize size = preprocess_.output();
  return {count_, size.height, size.width, preprocess_.channels};
}

void ImageInput::add(const Image& image, bool mirrored) {
  ++count_;
  ImageRecord record = preprocess_record(preprocess_, image.height, image.width);
  if (mirrored) {
    record.flip_horizontal = true;
    record.place.left = preprocess_.output().width - record.place.left - record.place.width;
  }
  if (pipeline_) {
    if (!images_) images_ = std::make_shared<ImageRows>(pool_, rows_);
    images_->record(count_ - 1) = record;
    return pack_view(ImageView(image), images_->record(count_ - 1), *images_, pack_scratch_);
  }
  const auto all = static_cast<size_t>(batch_shape().count());
  values_.resize(all);
  transform_image(ImageView(image), record,
                  {.values = std::span(values_).last(all / static_cast<size_t>(count_)),
                   .size = preprocess_.output(),
                   .channels = preprocess_.channels},
                  scratch_);
}

Tensor ImageInput::take() {
  Tensor inputs;
  if (pipeline_) {
    inputs = empty(batch_shape(), {.dtype = dtype_, .device = device_});
    ImageBatch batch = images_->batch(count_);
    batch.channels = preprocess_.channels;
    pipeline_->run(batch, std::exchange(images_, nullptr), inputs);
  } else {
    inputs = empty(batch_shape());
    std::ranges::copy(values_, inputs.data<float>().begin());
  }
  count_ = 0;
  return inputs;
}

}  // namespace whisker
