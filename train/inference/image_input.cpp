#include "train/inference/image_input.h"

#include "core/backend/backend.h"

#include <algorithm>
#include <utility>

namespace whisker {

ImageInput::ImageInput(const Network& network)
    : preprocess_(network.preprocess()),
      device_(network.arena().device()),
      dtype_(network.arena().compute_dtype()) {
  if (device_.kind != DeviceKind::cuda) return;
  pipeline_ = backend_of(device_).make_image_pipeline();
  pool_ = std::make_shared<PinnedPool>(device_);
}

ImageInput::Batch ImageInput::batch(int64_t rows) const {
  if (pipeline_) return {.packed = std::make_shared<ImageRows>(pool_, rows)};
  return {.values = std::vector<std::vector<float>>(static_cast<size_t>(rows))};
}

Rect ImageInput::part_read(const ImageHeader& image) const {
  return whisker::part_read(preprocess_record(preprocess_, image.height, image.width));
}

void ImageInput::set(Batch& batch, int64_t row, const Image& image, bool mirrored) {
  const ImageSize size = preprocess_.output();
  ImageRecord record = preprocess_record(preprocess_, image.height, image.width);
  if (mirrored) {
    record.flip_horizontal = true;
    record.place.left = size.width - record.place.left - record.place.width;
  }
  std::unique_ptr<Scratch> scratch = scratches_.take_or_make();
  if (pipeline_) {
    pack_view(ImageView(image), record, *batch.packed, scratch->pack);
    batch.packed->record(row) = record;
  } else {
    std::vector<float>& values = batch.values[static_cast<size_t>(row)];
    values.resize(
        static_cast<size_t>(Shape{size.height, size.width, preprocess_.channels}.count()));
    transform_image(ImageView(image), record,
                    {.values = values, .size = size, .channels = preprocess_.channels},
                    scratch->transform);
  }
  scratches_.give(std::move(scratch));
}

Tensor ImageInput::take(Batch batch, std::span<const int64_t> rows) {
  const ImageSize size = preprocess_.output();
  const Shape shape{std::ssize(rows), size.height, size.width, preprocess_.channels};
  if (!pipeline_) {
    Tensor inputs = empty(shape);
    auto at = inputs.data<float>().begin();
    for (const int64_t row : rows) {
      at = std::ranges::copy(batch.values[static_cast<size_t>(row)], at).out;
    }
    return inputs;
  }
  Tensor inputs = empty(shape, {.dtype = dtype_, .device = device_});
  for (size_t to = 0; to < rows.size(); ++to) {
    batch.packed->move_row(rows[to], static_cast<int64_t>(to));
  }
  ImageBatch images = batch.packed->batch(std::ssize(rows));
  images.channels = preprocess_.channels;
  pipeline_->run(images, std::move(batch.packed), inputs);
  return inputs;
}

}  // namespace whisker
