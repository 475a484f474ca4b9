// Packed images through every device's pipeline against transform_image(): host devices to the bit,
// GPUs within the last rounding of f32, and to the bit where values are whole numbers.
#include "core/error.h"
#include "core/nvidia/cuda_library.h"
#include "core/ops/ops.h"
#include "data/transforms/augment_sampler.h"
#include "tests/support/devices.h"
#include "tests/support/finished_images.h"
#include "tests/support/image_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

constexpr int height = 24;
constexpr int width = 37;

Preprocess imagenet(ResizeMode mode, int channels) {
  return test::imagenet({height, width}, mode, channels);
}

// Values that stay the whole numbers they were.
Normalisation as_they_are() {
  return {.scale = 1, .mean = {0, 0, 0}, .std = {1, 1, 1}};
}

/// A batch being packed beside what the host makes of the same images.
struct TestBatch {
  TestBatch(Device on, int rows, int channels)
      : device(on),
        image_channels(channels),
        images(std::make_shared<ImageRows>(std::make_shared<PinnedPool>(on), rows)) {}

  void add(const Image& source, const ImageRecord& record) {
    const ImageView view(source, record.crop);
    images->record(count) = record;
    pack_pixels(view, images->record(count), *images);
    transform_image(view, record,
                    {.values = next(), .size = {height, width}, .channels = image_channels},
                    scratch);
  }

  void add(const Image& source, const Preprocess& preprocess) {
    add(source, preprocess_record(preprocess, source.height, source.width));
  }

  std::span<float> next() {
    ++count;
    const size_t values = static_cast<size_t>(height) * width * size_t(image_channels);
    expected.resize(static_cast<size_t>(count) * values);
    return std::span(expected).last(values);
  }

  std::vector<double> run(ImagePipeline& pipeline, DType dtype = DType::f32) {
    const Tensor inputs =
        empty({count, height, width, image_channels}, {.dtype = dtype, .device = device});
    ImageBatch batch = images->batch(count);
    batch.channels = image_channels;
    pipeline.run(batch, images, inputs);
    return inputs.to_vector();
  }

  Device device;
  int image_channels;
  int64_t count = 0;
  std::shared_ptr<ImageRows> images;
  std::vector<float> expected;
  TransformScratch scratch;
};

// The devices whose pipelines are compared; says so when no GPU is among them.
std::vector<Device> pipeline_devices() {
  const std::vector<Device> devices = test::test_devices();
  const bool gpu =
      std::ranges::any_of(devices, [](Device device) { return device.kind == DeviceKind::cuda; });
  if (!gpu) std::printf("skipped: no GPU\n");
  return devices;
}

// Kernels sum an image's gray in another order, which may move a value by the last bit of 255,
// divided by 255 * 0.22.
constexpr double gpu_tolerance = 4 * 0x1p-24 / 0.22;

void expect_equal(const TestBatch& batch, const std::vector<double>& got, const char* name) {
  ASSERT_EQ(got.size(), batch.expected.size());
  const double allowed = batch.device.kind == DeviceKind::cuda ? gpu_tolerance : 0;
  double most = 0;
  int64_t unequal = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - static_cast<double>(batch.expected[i]));
    most = std::max(most, difference);
    unequal += difference > 0 ? 1 : 0;
  }
  EXPECT_LE(most, allowed) << batch.device.str() << ": " << name << ", " << unequal << " of "
                           << got.size() << " values differ";
}

TEST(DeviceImages, EqualTransformImage) {
  const Image source = test::sample_image(83, 61);
  int compared = 0;
  for (const Device device : pipeline_devices()) {
    const auto pipeline = test::image_pipeline(device);
    for (const auto& [name, config] : test::augmentations()) {
      for (const int channels : {3, 1}) {
        for (const auto mode : {ResizeMode::crop, ResizeMode::squash, ResizeMode::letterbox}) {
          TestBatch batch(device, 12, channels);
          for (uint64_t index = 0; index < 12; ++index) {
            ImageRecord record =
                sample_augmentation(config, imagenet(mode, channels), {5, 2, index}, 61, 83);
            record.interpolation =
                index % 3 == 0 ? Interpolation::bicubic : Interpolation::bilinear;
            record.antialias = index % 4 != 1;
            batch.add(source, record);
            ++compared;
          }
          expect_equal(batch, batch.run(*pipeline), name);
        }
      }
    }
  }
  std::printf("images equal to transform_image: %d\n", compared);
}

// Up and down, from one pixel to a few hundred, strips, windows of a larger result.
TEST(DeviceImages, ResampleToTheBit) {
  const std::vector<std::pair<int, int>> sizes = {{1, 1},   {1, 300},  {300, 1},  {24, 37},
                                                  {7, 5},   {48, 74},  {211, 97}, {97, 211},
                                                  {25, 36}, {640, 23}, {23, 640}};
  for (const Device device : pipeline_devices()) {
    const auto pipeline = test::image_pipeline(device);
    for (const auto interpolation : {Interpolation::bilinear, Interpolation::bicubic}) {
      for (const auto mode : {ResizeMode::crop, ResizeMode::squash, ResizeMode::letterbox}) {
        for (const bool antialias : {true, false}) {
          Preprocess preprocess = imagenet(mode, 3);
          preprocess.interpolation = interpolation;
          preprocess.antialias = antialias;
          preprocess.normalisation = as_they_are();
          TestBatch batch(device, 64, 3);
          for (const auto& [h, w] : sizes) batch.add(test::sample_image(w, h), preprocess);
          const std::vector<double> got = batch.run(*pipeline);
          const std::vector<double> expected(batch.expected.begin(), batch.expected.end());
          EXPECT_EQ(got, expected) << device.str();
        }
      }
    }
  }
}

TEST(DeviceImages, HostResamplingChangesNothing) {
  const Image source = test::sample_image(120, 90);
  for (const Device device : pipeline_devices()) {
    const auto pipeline = test::image_pipeline(device);
    const AugmentConfig config{
        .random_resized_crop = true, .flip_horizontal = 0.5, .flip_vertical = 0.5};
    TestBatch batch(device, 8, 3);
    for (uint64_t index = 0; index < 8; ++index) {
      Preprocess preprocess = imagenet(ResizeMode::letterbox, 3);
      preprocess.normalisation = as_they_are();
      const ImageRecord drawn = sample_augmentation(config, preprocess, {1, 0, index}, 90, 120);
      batch.add(source, drawn);
      ImageRecord& record = batch.images->record(batch.count - 1);
      record = drawn;
      Image resampled;
      resample_on_host(ImageView(source, drawn.crop), record, resampled, batch.scratch.resize);
      EXPECT_EQ(pixels_read(record), (Rect{0, 0, resampled.width, resampled.height}));
      pack_pixels(ImageView(resampled), record, *batch.images);
    }
    const std::vector<double> expected(batch.expected.begin(), batch.expected.end());
    EXPECT_EQ(batch.run(*pipeline), expected) << device.str();
  }
}

TEST(DeviceImages, MixRows) {
  for (const Device device : pipeline_devices()) {
    const auto pipeline = test::image_pipeline(device);
    for (const auto kind : {BatchMix::Kind::mixup, BatchMix::Kind::cutmix}) {
      for (const int rows : {1, 2, 5}) {
        TestBatch batch(device, rows, 3);
        for (int i = 0; i < rows; ++i) {
          batch.add(test::sample_image(40 + i, 30 + 2 * i), imagenet(ResizeMode::squash, 3));
        }
        batch.images->mix = {.kind = kind, .lambda = 0.3, .box = {5, 6, 20, 10}};
        mix_images(batch.images->mix,
                   {.images = batch.expected, .rows = rows, .height = height, .width = width});
        expect_equal(batch, batch.run(*pipeline), "mixed");
      }
    }
  }
}

TEST(DeviceImages, RoundToTheNarrowTypes) {
  const Image source = test::sample_image(83, 61);
  for (const Device device : pipeline_devices()) {
    const auto pipeline = test::image_pipeline(device);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const int channels : {1, 3}) {
        TestBatch batch(device, 3, channels);
        for (int i = 0; i < 3; ++i) batch.add(source, imagenet(ResizeMode::crop, channels));
        const std::vector<double> got = batch.run(*pipeline, dtype);
        ASSERT_EQ(got.size(), batch.expected.size());
        for (size_t i = 0; i < got.size(); ++i) {
          float value = batch.expected[i];
          if (dtype == DType::bf16) value = static_cast<float>(bf16_t(value));
          if (dtype == DType::f16) value = static_cast<float>(f16_t(value));
          ASSERT_EQ(got[i], static_cast<double>(value)) << device.str() << " " << name_of(dtype);
        }
      }
    }
  }
}

// More batches than a pipeline works on at a time, each of other extents, their memory reused at
// once: a copy that is overtaken would show.
TEST(DeviceImages, ManyBatchesKeepTheirOrder) {
  for (const Device device : pipeline_devices()) {
    const auto pipeline = test::image_pipeline(device);
    const auto pool = std::make_shared<PinnedPool>(device);
    std::vector<Tensor> results;
    std::vector<std::vector<float>> expected;
    Preprocess preprocess = imagenet(ResizeMode::squash, 3);
    preprocess.normalisation = as_they_are();
    for (int i = 0; i < 12; ++i) {
      const int rows = 1 + i % 4;
      const auto images = std::make_shared<ImageRows>(pool, rows);
      const Image source = test::sample_image(200 + 90 * (i % 5), 150 + 31 * i);
      expected.emplace_back();
      for (int row = 0; row < rows; ++row) {
        images->record(row) = preprocess_record(preprocess, source.height, source.width);
        pack_pixels(ImageView(source), images->record(row), *images);
        const std::vector<float> one = test::preprocessed(preprocess, source);
        expected.back().insert(expected.back().end(), one.begin(), one.end());
      }
      results.push_back(empty({rows, height, width, 3}, {.device = device}));
      pipeline->run(images->batch(rows), images, results.back());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const std::vector<double> wide(expected[i].begin(), expected[i].end());
      EXPECT_EQ(results[i].to_vector(), wide) << device.str() << " batch " << i;
    }
  }
}

// What is copied to stay serves later batches that bring no bytes of their own.
TEST(DeviceImages, ResidentImagesNeedNoBytes) {
  const Image source = test::sample_image(90, 70);
  for (const Device device : pipeline_devices()) {
    Backend& backend = backend_of(device);
    const auto pipeline = test::image_pipeline(device);
    const int64_t bytes = std::ssize(source.rgb);
    void* const memory = backend.allocate(bytes, MemoryCategory::input);
    TestBatch first(device, 1, 3);
    first.add(source, imagenet(ResizeMode::squash, 3));
    ImageBatch batch = first.images->batch(1);
    const int64_t at = pack_whole(source, *first.images);
    batch = first.images->batch(1);
    batch.copies.push_back({.at = at, .bytes = bytes, .target = memory});
    const Tensor images = empty({1, height, width, 3}, {.device = device});
    pipeline->run(batch, first.images, images);

    ImageRows later(std::make_shared<PinnedPool>(device), 1);
    later.record(0) = first.images->record(0);
    later.record(0).resident = true;
    later.record(0).stride = int64_t{3} * source.width;
    later.record(0).offset = reinterpret_cast<int64_t>(memory);
    const Tensor again = empty({1, height, width, 3}, {.device = device});
    pipeline->run(later.batch(1), nullptr, again);
    EXPECT_EQ(again.to_vector(), images.to_vector());
    expect_equal(first, again.to_vector(), "resident");
    backend.deallocate(memory, bytes, MemoryCategory::input);
  }
}

// A pipeline makes its GPU the thread's when it is made, and again when it goes.
TEST(DeviceImages, PipelinesComeAndGoBesideAnotherGpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  if (cuda_device_count() == 1) GTEST_SKIP() << "skipped: one GPU";
  const Image source = test::sample_image(83, 61);
  const auto expect_works = [](Device device) {
    const Tensor y = affine(full({100}, 3, {.device = device}), 2, 1);
    EXPECT_EQ(y.to_vector(), std::vector<double>(100, 7)) << device.str();
  };
  for (const int index : {0, 1}) {
    const Device device{DeviceKind::cuda, index}, other{DeviceKind::cuda, 1 - index};
    expect_works(other);
    auto pipeline = test::image_pipeline(device);
    TestBatch batch(device, 1, 3);
    batch.add(source, imagenet(ResizeMode::crop, 3));
    expect_equal(batch, batch.run(*pipeline), "beside another GPU");
    expect_works(other);
    pipeline.reset();
    expect_works(other);
  }
}

}  // namespace
}  // namespace whisker
