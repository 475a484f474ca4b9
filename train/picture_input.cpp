#include "train/picture_input.h"

#include "core/backend.h"

#include <algorithm>
#include <utility>

namespace whisker {

PictureInput::PictureInput(const Network& network, int64_t rows)
    : preprocess_(network.preprocess()),
      device_(network.arena().device()),
      dtype_(network.arena().compute_dtype()),
      rows_(rows) {
  if (device_.kind != DeviceKind::cuda) return;
  pipeline_ = backend_of(device_).make_picture_pipeline();
  shelf_ = std::make_shared<PinnedShelf>(device_);
}

Shape PictureInput::batch_shape() const {
  const PictureSize size = preprocess_.output();
  return {count_, size.height, size.width, preprocess_.channels};
}

void PictureInput::add(const Picture& picture) {
  ++count_;
  if (pipeline_) {
    if (!pictures_) pictures_ = std::make_shared<PictureRows>(shelf_, rows_);
    PictureRecord& record = pictures_->record(count_ - 1);
    record = picture_record(preprocess_, picture.height, picture.width);
    stage_view(PictureView(picture), record, *pictures_, stage_scratch_);
    return;
  }
  const auto all = static_cast<size_t>(batch_shape().count());
  values_.resize(all);
  const size_t one = all / static_cast<size_t>(count_);
  apply(preprocess_, picture, std::span(values_).last(one), scratch_);
}

Tensor PictureInput::take() {
  Tensor images;
  if (pipeline_) {
    images = empty(batch_shape(), {.dtype = dtype_, .device = device_});
    PictureBatch batch = pictures_->batch(count_);
    batch.channels = preprocess_.channels;
    pipeline_->run(batch, std::exchange(pictures_, nullptr), images);
  } else {
    images = empty(batch_shape());
    std::ranges::copy(values_, images.data<float>().begin());
  }
  count_ = 0;
  return images;
}

}  // namespace whisker
