// Images as the host makes them: by transform_image(), one by one or behind the interface of a
// device's pipeline.
#pragma once

#include "core/backend/backend.h"
#include "data/staging/image_staging.h"
#include "data/transforms/augment_sampler.h"
#include "data/transforms/mix.h"
#include "data/transforms/transform_image.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

namespace whisker::test {

struct NamedAugmentation {
  const char* name;
  AugmentConfig config;
};

/// What augmentation can do one by one, and last all of it together.
inline std::vector<NamedAugmentation> augmentations() {
  std::vector<NamedAugmentation> list = {
      {"none", {}},
      {"crop and flips",
       {.random_resized_crop = true, .flip_horizontal = 0.5, .flip_vertical = 0.5}},
      {"shear", {.flip_horizontal = 0.5, .shear = 20, .zoom = 0.2}},
      {"brightness and saturation", {.brightness = 0.4, .saturation = 0.4}},
      {"contrast", {.contrast = 0.5}},
      {"hue", {.hue = 0.5}},
      {"erase", {.erase = 1}}};
  for (const auto mode :
       {FillMode::constant, FillMode::nearest, FillMode::reflect, FillMode::wrap}) {
    list.push_back({"shift far",
                    {.rotation = 45,
                     .zoom = 0.9,
                     .shift_horizontal = 1,
                     .shift_vertical = 1,
                     .fill_mode = mode,
                     .fill_value = 33}});
  }
  list.push_back({"all",
                  {.random_resized_crop = true,
                   .flip_horizontal = 0.5,
                   .rotation = 90,
                   .brightness = 0.3,
                   .contrast = 0.3,
                   .saturation = 0.3,
                   .hue = 0.1,
                   .erase = 0.5}});
  return list;
}

inline Preprocess imagenet(const ImageSize& size, ResizeMode mode, int channels = 3) {
  Preprocess preprocess{.size = size, .resize_mode = mode, .channels = channels};
  preprocess.normalisation.mean = {0.485, 0.456, 0.406};
  preprocess.normalisation.std = {0.229, 0.224, 0.225};
  return preprocess;
}

inline std::vector<float> preprocessed(const Preprocess& preprocess, const Image& image) {
  const ImageSize size = preprocess.output();
  std::vector<float> values(static_cast<size_t>(size.height * size.width * preprocess.channels));
  TransformScratch scratch;
  transform_image(ImageView(image), preprocess_record(preprocess, image.height, image.width),
                  {.values = values, .size = size, .channels = preprocess.channels}, scratch);
  return values;
}

/// For devices in host memory. Only the pixels that were packed count: the others are black.
class HostImagePipeline final : public ImagePipeline {
 public:
  void run(const ImageBatch& batch, std::shared_ptr<const void>, const Tensor& inputs) override {
    for (const ImageCopy& copy : batch.copies) {
      std::memcpy(copy.target, address(batch, copy.at), static_cast<size_t>(copy.bytes));
    }
    const auto rows = static_cast<int64_t>(batch.records.size());
    const ImageSize size{static_cast<int>(inputs.extent(1)), static_cast<int>(inputs.extent(2))};
    const auto one = static_cast<size_t>(size.height * size.width * batch.channels);
    std::vector<float> values(batch.records.size() * one);
    TransformScratch scratch;
    for (size_t i = 0; i < batch.records.size(); ++i) {
      const ImageRecord& record = batch.records[i];
      transform_image(ImageView(source(batch, record)), record,
                      {.values = std::span(values).subspan(i * one, one),
                       .size = size,
                       .channels = batch.channels},
                      scratch);
    }
    mix_images(batch.mix,
               {.images = values, .rows = rows, .height = size.height, .width = size.width});
    visit(inputs.dtype(), [&]<class T>() {
      if constexpr (is_floating(dtype_of<T>::value)) {
        std::ranges::transform(values, inputs.data<T>().begin(),
                               [](float value) { return static_cast<T>(value); });
      }
    });
  }

 private:
  static const uint8_t* address(const ImageBatch& batch, int64_t offset) {
    const auto piece = std::ranges::find_if(
        batch.pieces, [&](const ImagePiece& one) { return offset < one.at + one.bytes; });
    return piece->host + (offset - piece->at);
  }

  static Image source(const ImageBatch& batch, const ImageRecord& record) {
    Image image;
    image.reshape(record.rows.in, record.columns.in);
    const Rect read = pixels_read(record);
    const int64_t first = record.offset + read.top * record.stride + int64_t{3} * read.left;
    const uint8_t* from =
        record.resident ? reinterpret_cast<const uint8_t*>(first) : address(batch, first);
    for (int y = 0; y < read.height; ++y, from += record.stride) {
      std::memcpy(image.row(read.top + y) + ptrdiff_t{3} * read.left, from,
                  static_cast<size_t>(read.width) * 3);
    }
    return image;
  }
};

/// The device's own, or where it has none the host's.
inline std::unique_ptr<ImagePipeline> image_pipeline(Device device) {
  if (auto own = backend_of(device).make_image_pipeline()) return own;
  return std::make_unique<HostImagePipeline>();
}

}  // namespace whisker::test
