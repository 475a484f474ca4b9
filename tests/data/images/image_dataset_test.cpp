#include "data/images/image_dataset.h"

#include "core/error.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "data/loader/loader.h"
#include "tests/support/error_of.h"
#include "tests/support/finished_images.h"
#include "tests/support/image_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_data.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

/// JPEG files a/000.jpg ..., b/000.jpg ... of varied sizes.
void write_images(const TemporaryFolder& folder, int per_class, int side = 24) {
  for (int i = 0; i < 2 * per_class; ++i) {
    folder.write(fmt::format("{}/{:04}.jpg", i < per_class ? 'a' : 'b', i),
                 test::write_jpeg(test::sample_image(side + i % 7, side + i % 5)));
  }
}

Preprocess square(int side) {
  Preprocess preprocess;
  preprocess.size = {side, side};
  return preprocess;
}

AugmentConfig lively() {
  return {.random_resized_crop = true,
          .flip_horizontal = 0.5,
          .rotation = 10,
          .brightness = 0.2,
          .hue = 0.1};
}

std::string hash_epoch(Loader& loader, int64_t epoch) {
  Hash64 hash;
  loader.start_epoch(epoch);
  while (const auto batch = loader.next()) {
    hash.update(std::as_bytes(batch->inputs.data<const float>()));
    hash.update(std::as_bytes(batch->labels.data<const int64_t>()));
  }
  return hash.hex();
}

std::string hash_with(const ImageFolder& folder, const ImageDatasetOptions& options, int workers,
                      double max_bad = 0.01) {
  const auto data = std::make_shared<ImageDataset>(folder, options);
  Loader loader(data, shuffle_sampler(data->size(), {.seed = 1}),
                {.batch_size = 32, .workers = workers, .max_bad = max_bad});
  return hash_epoch(loader, 0) + hash_epoch(loader, 1);
}

TEST(ImageDataset, GivesPreprocessedImagesAndLabels) {
  TemporaryFolder folder;
  write_images(folder, 3);
  const ImageDataset data(open_image_folder(folder.path()), {.preprocess = square(16)});
  EXPECT_EQ(data.size(), 6);
  EXPECT_EQ(data.sample_shape(), Shape({16, 16, 3}));
  for (int64_t i = 0; i < 6; ++i) {
    const Sample sample = data.get(i);
    EXPECT_EQ(sample.label, i / 3);
    const auto bytes = test::read_bytes(data.folder().file(i));
    const std::vector<float> expected = test::preprocessed(square(16), decode(bytes));
    const auto got = sample.input.data<const float>();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), got.begin(), got.end())) << i;
  }
}

TEST(ImageDataset, AugmentsByEpochAndIndex) {
  TemporaryFolder folder;
  write_images(folder, 2);
  const ImageDataset data(open_image_folder(folder.path()),
                          {.preprocess = square(16), .augment = lively(), .seed = 5});
  const auto at = [&](int64_t index, int64_t epoch) {
    std::vector<float> image(16 * 16 * 3);
    data.write({.index = index, .epoch = epoch}, image);
    return image;
  };
  EXPECT_EQ(at(1, 2), at(1, 2));
  EXPECT_NE(at(1, 2), at(1, 3));
  const ImageDataset other(data.folder(),
                           {.preprocess = square(16), .augment = lively(), .seed = 6});
  std::vector<float> image(16 * 16 * 3);
  other.write({.index = 1, .epoch = 2}, image);
  EXPECT_NE(at(1, 2), image);
}

TEST(ImageDataset, NamesAnUnreadableFile) {
  TemporaryFolder folder;
  write_images(folder, 2);
  folder.write("a/0000.jpg", "no image");
  folder.write("b/empty.jpg", "");
  const ImageDataset data(open_image_folder(folder.path()), {.preprocess = square(16)});
  for (const int64_t bad : {0, 4}) {
    EXPECT_THAT(test::message_of(ErrorKind::data, [&] { data.get(bad); }),
                HasSubstr(data.folder().file(bad).string() + ": "));
  }
  std::filesystem::remove(folder / "a/0001.jpg");
  EXPECT_THROW(data.get(1), Error);
}

// 1,000 small images with 0, 1, 5 or 50 bad ones give the same batches on 1 to 8 workers.
TEST(ImageDataset, BadImagesGiveTheSameBatchesOnAnyNumberOfWorkers) {
  TemporaryFolder folder;
  write_images(folder, 500, 12);
  const ImageFolder files = open_image_folder(folder.path());
  ASSERT_EQ(files.size(), 1000);
  std::set<std::string> of_counts;
  int made_bad = 0;
  for (const int bad : {0, 1, 5, 50}) {
    for (; made_bad < bad; ++made_bad) {  // cut in the middle, every twentieth
      const auto path = files.file(made_bad * 20 + 3);
      std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    }
    std::set<std::string> hashes;
    for (const int workers : {1, 2, 4, 8}) {
      hashes.insert(
          hash_with(files, {.preprocess = square(8), .augment = lively()}, workers, 0.05));
    }
    EXPECT_EQ(hashes.size(), 1u) << bad << " bad images";
    of_counts.insert(hashes.begin(), hashes.end());
  }
  EXPECT_EQ(of_counts.size(), 4u);  // control: another set of bad images is another hash
  // 5 % are above the usual limit.
  EXPECT_THROW(hash_with(files, {.preprocess = square(8)}, 2), Error);
  std::printf(
      "1,000 images with 0, 1, 5 and 50 bad ones: the same batches on 1, 2, 4 and 8 workers\n");
}

TEST(ImageDataset, CachesNeverChangePixels) {
  TemporaryFolder folder;
  write_images(folder, 20, 60);
  folder.write("a/0003.jpg", "no image");
  const ImageFolder files = open_image_folder(folder.path());
  for (const int short_side : {0, 40}) {
    ImageDatasetOptions options{.preprocess = square(16), .augment = lively()};
    options.fast_decode = false;
    options.cache = {.kind = CacheKind::memory, .short_side = short_side};
    const std::string expected = hash_with(files, options, 2);
    if (short_side == 0) {
      ImageDatasetOptions without = options;
      without.cache = {};
      EXPECT_EQ(hash_with(files, without, 2), expected);
    }
    for (const uint64_t max_bytes : {0, 100'000}) {  // none or a part of them
      options.cache.max_bytes = max_bytes;
      EXPECT_EQ(hash_with(files, options, 3), expected);
    }
    options.cache.kind = CacheKind::disk;
    options.cache.file = folder / fmt::format("packed{}", short_side);
    EXPECT_EQ(hash_with(files, options, 2), expected);
  }
}

// Without a cache only what a sample reads is decoded, with one the whole image.
TEST(ImageDataset, ValidationReadsTheSamePixelsFromFilesAndCaches) {
  TemporaryFolder folder;
  for (int i = 0; i < 16; ++i) {
    const int width = i % 2 == 0 ? 200 : 70 + i;
    folder.write(fmt::format("{}/{}.jpg", i < 8 ? 'a' : 'b', i),
                 test::write_jpeg(test::sample_image(width, 100 + i), {.orientation = i % 9}));
  }
  const ImageFolder files = open_image_folder(folder.path());
  for (const Interpolation interpolation : {Interpolation::bilinear, Interpolation::bicubic}) {
    const ImageDatasetOptions options{.preprocess = {.resize_short = 32,
                                                     .crop = {.height = 24, .width = 20},
                                                     .interpolation = interpolation}};
    ImageDatasetOptions cached = options;
    cached.cache = {.kind = CacheKind::memory};
    EXPECT_EQ(hash_with(files, options, 2), hash_with(files, cached, 2));
  }
}

TEST(ImageDataset, ReadsCatsAndDogs) {
  const auto root = test::test_data_dir() / "cats_dogs" / "val";
  if (!std::filesystem::exists(root)) GTEST_SKIP() << root << " is missing";
  const auto data = std::make_shared<ImageDataset>(
      open_image_folder(root), ImageDatasetOptions{.preprocess = square(64), .augment = lively()});
  EXPECT_EQ(data->folder().counts(), (std::vector<int64_t>{500, 500}));
  Loader loader(data, shuffle_sampler(data->size(), {.seed = 1}), {.batch_size = 50});
  loader.start_epoch(0);
  int64_t batches = 0;
  while (loader.next()) ++batches;
  EXPECT_EQ(batches, 20);
  EXPECT_TRUE(loader.bad_samples().empty());
}

}  // namespace
}  // namespace whisker
