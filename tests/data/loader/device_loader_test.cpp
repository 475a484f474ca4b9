// Batches made on a device against the loader's own: the same images, labels and bad ones,
// whichever cache they come from. Host devices give the same bits; see device_images_test.cpp for
// what a GPU may differ in.
#include "data/loader/device_loader.h"

#include "core/backend/backend.h"
#include "core/error.h"
#include "data/images/image_dataset.h"
#include "tests/support/devices.h"
#include "tests/support/finished_images.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker {
namespace {

/// JPEG files a/000.jpg ..., b/000.jpg ... of varied sizes; the last is large.
void write_jpegs(const TemporaryFolder& folder, int per_class, int side = 40) {
  for (int i = 0; i < 2 * per_class; ++i) {
    const bool large = i + 1 == 2 * per_class;
    const Image image = large ? test::sample_image(900, 700)
                              : test::sample_image(side + i % 7 * 5, side + i % 5 * 9);
    folder.write(fmt::format("{}/{:04}.jpg", i < per_class ? 'a' : 'b', i),
                 test::write_jpeg(image));
  }
}

AugmentConfig all_augmentations() {
  return {.random_resized_crop = true,
          .flip_horizontal = 0.5,
          .rotation = 10,
          .brightness = 0.2,
          .contrast = 0.2,
          .hue = 0.1};
}

struct Case {
  const char* name;
  ImageDatasetOptions data = {};
  bool shuffle = true;
  OnBad on_bad = OnBad::replace;
  double mixup = 0;
};

Preprocess preprocess_of(ResizeMode mode) {
  Preprocess preprocess;
  preprocess.size = {20, 28};
  preprocess.resize_mode = mode;
  return preprocess;
}

std::vector<Case> cases() {
  std::vector<Case> list;
  for (const auto kind : {CacheKind::none, CacheKind::memory, CacheKind::device}) {
    const CacheOptions cache{.kind = kind, .short_side = 60};
    list.push_back({.name = "training",
                    .data = {.preprocess = preprocess_of(ResizeMode::crop),
                             .augment = all_augmentations(),
                             .seed = 4,
                             .cache = cache}});
    list.push_back({.name = "training, mixed",
                    .data = {.preprocess = preprocess_of(ResizeMode::crop),
                             .augment = AugmentConfig{.random_resized_crop = true, .mixup = 0.4},
                             .cache = cache},
                    .mixup = 0.4});
    list.push_back(
        {.name = "random operations",
         .data = {.preprocess = preprocess_of(ResizeMode::letterbox),
                  .augment =
                      AugmentConfig{.flip_horizontal = 0.5, .rand_augment_ops = 2, .contrast = 0.2},
                  .cache = cache}});
    list.push_back({.name = "no random crop",
                    .data = {.preprocess = preprocess_of(ResizeMode::squash),
                             .augment = AugmentConfig{.flip_horizontal = 0.5, .zoom = 0.2},
                             .cache = cache}});
    for (const auto mode : {ResizeMode::crop, ResizeMode::squash, ResizeMode::letterbox}) {
      list.push_back({.name = "validation",
                      .data = {.preprocess = preprocess_of(mode), .cache = {.kind = kind}},
                      .shuffle = false,
                      .on_bad = OnBad::skip});
    }
  }
  return list;
}

DeviceLoaderOptions host_options() {
  return {.pipeline = test::image_pipeline(cpu_device)};
}

struct DeliveredBatches {
  std::vector<std::vector<double>> images;  // by batch
  std::vector<std::vector<double>> labels;
  std::vector<std::vector<int64_t>> indices;
  std::vector<int64_t> bad;
};

void add_epoch(BatchSource& source, int64_t epoch, DeliveredBatches& run) {
  source.start_epoch(epoch);
  while (const auto batch = source.next()) {
    run.images.push_back(batch->inputs.to_vector());
    run.labels.push_back((batch->soft_labels ? batch->soft_labels : batch->labels).to_vector());
    run.indices.push_back(batch->indices);
  }
}

DeliveredBatches run_epochs(BatchSource& source, int epochs) {
  DeliveredBatches run;
  for (int epoch = 0; epoch < epochs; ++epoch) add_epoch(source, epoch, run);
  for (const BadSample& bad : source.bad_samples()) run.bad.push_back(bad.index);
  return run;
}

LoaderOptions options_of(const Case& test, int workers) {
  LoaderOptions options{.batch_size = 8, .workers = workers, .on_bad = test.on_bad, .max_bad = 0.5};
  options.mix.augment.mixup = test.mixup;
  options.mix.classes = test.mixup > 0 ? 2 : 0;
  return options;
}

std::unique_ptr<Sampler> sampler_of(const Case& test, int64_t size) {
  if (test.shuffle) return shuffle_sampler(size, {.seed = 1});
  return sequential_sampler(size);
}

void expect_same(const DeliveredBatches& got, const DeliveredBatches& expected, double tolerance,
                 const std::string& name) {
  EXPECT_EQ(got.labels, expected.labels) << name;
  EXPECT_EQ(got.indices, expected.indices) << name;
  EXPECT_EQ(got.bad, expected.bad) << name;
  ASSERT_EQ(got.images.size(), expected.images.size()) << name;
  double most = 0;
  for (size_t i = 0; i < got.images.size(); ++i) {
    ASSERT_EQ(got.images[i].size(), expected.images[i].size()) << name;
    for (size_t k = 0; k < got.images[i].size(); ++k) {
      most = std::max(most, std::abs(got.images[i][k] - expected.images[i][k]));
    }
  }
  EXPECT_LE(most, tolerance) << name;
}

TEST(DeviceLoader, GivesTheLoadersBatches) {
  TemporaryFolder folder;
  write_jpegs(folder, 10);
  folder.write("a/0003.jpg", "no image");
  folder.write("b/0012.jpg", "");
  const ImageFolder files = open_image_folder(folder.path());
  for (const Case& test : cases()) {
    const auto plain = std::make_shared<ImageDataset>(files, test.data);
    Loader loader(plain, sampler_of(test, files.size()), options_of(test, 0));
    const DeliveredBatches expected = run_epochs(loader, 3);
    EXPECT_EQ(expected.bad.size(), 2u);
    for (const Device device : test::test_devices()) {
      const double tolerance = device.kind == DeviceKind::cuda ? 4 * 0x1p-24 : 0;
      for (const int workers : {0, 3}) {
        ImageDatasetOptions options = test.data;
        options.cache.device = device;
        const auto data = std::make_shared<ImageDataset>(files, options);
        DeviceLoader on_device(data, sampler_of(test, files.size()), options_of(test, workers),
                               {.device = device, .pipeline = test::image_pipeline(device)});
        const std::string name = fmt::format("{}, cache {}, {}, {} workers", test.name,
                                             int(test.data.cache.kind), device, workers);
        expect_same(run_epochs(on_device, 3), expected, tolerance, name);
        if (data->device_cache()) {
          EXPECT_EQ(data->device_cache()->kept(), 18) << name;
          EXPECT_EQ(data->device_cache()->left_out(), 0) << name;
        }
      }
    }
  }
}

// A device cache that is too small keeps what fits; the rest comes from the host, with the same
// result.
TEST(DeviceLoader, CacheThatIsTooSmallChangesNothing) {
  TemporaryFolder folder;
  write_jpegs(folder, 10);
  const ImageFolder files = open_image_folder(folder.path());
  Case test = cases()[0];
  for (const uint64_t limit : {uint64_t{0}, uint64_t{60'000}}) {
    test.data.cache = {.kind = CacheKind::memory, .short_side = 60};
    const auto plain = std::make_shared<ImageDataset>(files, test.data);
    Loader loader(plain, sampler_of(test, files.size()), options_of(test, 2));
    const DeliveredBatches expected = run_epochs(loader, 3);
    test.data.cache.kind = CacheKind::device;
    test.data.cache.max_bytes = limit;
    const auto data = std::make_shared<ImageDataset>(files, test.data);
    DeviceLoader on_device(data, sampler_of(test, files.size()), options_of(test, 2),
                           host_options());
    expect_same(run_epochs(on_device, 3), expected, 0, fmt::format("limit {}", limit));
    EXPECT_EQ(data->device_cache()->kept() + data->device_cache()->left_out(), 20);
    EXPECT_EQ(data->device_cache()->kept() > 0, limit > 0);
    EXPECT_GT(data->device_cache()->left_out(), 0);
    EXPECT_NE(on_device.take_note().find(limit == 0 ? "holds 0 of" : "the others"),
              std::string::npos);
    EXPECT_EQ(on_device.take_note(), "");
  }
}

// Batches that were prepared but never delivered leave nothing behind in the cache.
TEST(DeviceLoader, AbandonedEpochsDoNotFillTheCache) {
  TemporaryFolder folder;
  write_jpegs(folder, 10);
  const ImageFolder files = open_image_folder(folder.path());
  Case test = cases()[0];
  test.data.cache = {.kind = CacheKind::device, .short_side = 60};
  const auto data = std::make_shared<ImageDataset>(files, test.data);
  DeviceLoader loader(data, sampler_of(test, files.size()), options_of(test, 3), host_options());
  loader.start_epoch(0);
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(data->device_cache()->kept(), 8);
  loader.start_epoch(1);
  DeliveredBatches rest;
  add_epoch(loader, 1, rest);
  EXPECT_EQ(data->device_cache()->kept(), 20);
  test.data.cache.kind = CacheKind::memory;
  const auto plain = std::make_shared<ImageDataset>(files, test.data);
  Loader reference(plain, sampler_of(test, files.size()), options_of(test, 0));
  DeliveredBatches expected;
  add_epoch(reference, 1, expected);
  expect_same(rest, expected, 0, "second epoch");
}

TEST(DeviceLoader, WritesIntoAGivenTensor) {
  TemporaryFolder folder;
  write_jpegs(folder, 10);
  const ImageFolder files = open_image_folder(folder.path());
  const Case test = cases()[0];
  const auto data = std::make_shared<ImageDataset>(files, test.data);
  DeviceLoader loader(data, sampler_of(test, files.size()), options_of(test, 1),
                      {.dtype = DType::bf16, .pipeline = test::image_pipeline(cpu_device)});
  const Tensor images = zeros({8, 20, 28, 3}, {.dtype = DType::bf16});
  loader.write_into(images);
  loader.start_epoch(0);
  for (int i = 0; i < 2; ++i) {
    const auto batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_TRUE(batch->inputs.same(images));
  }
  const auto last = loader.next();  // 4 images are left
  ASSERT_TRUE(last);
  EXPECT_EQ(last->inputs.shape(), Shape({4, 20, 28, 3}));
  EXPECT_FALSE(last->inputs.same(images));
}

TEST(DeviceLoader, RefusesExamplesThatAreNoImages) {
  class Values final : public Dataset {
   public:
    int64_t size() const override { return 4; }
    Sample get(int64_t) const override { return {.input = zeros({2, 2, 3})}; }
  };
  DeviceLoader loader(std::make_shared<Values>(), sequential_sampler(4),
                      {.batch_size = 2, .workers = 0}, host_options());
  loader.start_epoch(0);
  EXPECT_THROW(loader.next(), Error);
}

TEST(DeviceLoader, RefusesDevicesThatFinishNoImages) {
  TemporaryFolder folder;
  write_jpegs(folder, 1);
  const auto data = std::make_shared<ImageDataset>(
      open_image_folder(folder.path()), ImageDatasetOptions{.preprocess = {.resize_short = 8}});
  EXPECT_THROW(DeviceLoader(data, sequential_sampler(2), {.workers = 0}, {}), Error);
}

}  // namespace
}  // namespace whisker
