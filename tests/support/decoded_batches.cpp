#include "tests/support/decoded_batches.h"

#include "data/loader/device_loader.h"
#include "tests/support/finished_images.h"
#include "tests/support/test_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>

namespace whisker::test {

void write_images(const TemporaryFolder& folder) {
  int number = 0;
  const auto name = [&](const char* kind, const char* ending = "jpg") {
    return fmt::format("{}/{:03}_{}.{}", number++ % 2 == 0 ? 'a' : 'b', number, kind, ending);
  };
  for (int orientation = 0; orientation <= 8; ++orientation) {
    for (const int samples : {1, 2}) {
      const Image image = sample_image(60 + 3 * orientation, 90 - 4 * orientation);
      folder.write(
          name("plain"),
          write_jpeg(image, {.h_samples = 2, .v_samples = samples, .orientation = orientation}));
    }
  }
  const Image image = sample_image(70, 80);
  folder.write(name("gray"), write_jpeg(image, {.color = JpegColor::gray}));
  folder.write(name("cmyk"), write_jpeg(image, {.color = JpegColor::cmyk}));
  folder.write(name("progressive"), write_jpeg(image, {.progressive = true, .orientation = 6}));
  folder.write(name("named", "png"), write_jpeg(image));
  folder.write(name("bmp", "bmp"), write_bmp(image));
  Buffer cut = write_jpeg(image);
  cut.resize(cut.size() / 2);
  folder.write(name("cut"), cut);
  Buffer large = write_jpeg(image);
  const uint8_t frame[] = {0xFF, 0xC0};
  const auto at = std::search(large.begin(), large.end(), frame, frame + 2);
  std::fill(at + 5, at + 9, uint8_t{0xFF});  // 65535x65535
  folder.write(name("huge"), large);
  folder.write(name("empty"), "");
}

ImageDatasetOptions augmented() {
  ImageDatasetOptions options{
      .preprocess = {.size = {24, 32}},
      .augment =
          AugmentConfig{
              .random_resized_crop = true, .flip_horizontal = 0.5, .rotation = 10, .contrast = 0.2},
      .seed = 3,
      .fast_decode = false};
  return options;
}

bool copy_odd_images(const TemporaryFolder& folder) {
  const auto root = test_data_dir() / "odd_images";
  if (!std::filesystem::exists(root)) return false;
  int number = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string ending = entry.path().extension().string();
    if (!entry.is_regular_file() || ending == ".tsv") continue;
    const std::string name = fmt::format("{}/{:04}{}", number % 2 == 0 ? 'a' : 'b', number, ending);
    ++number;
    folder.write(name, read_bytes(entry.path()));
  }
  return true;
}

Delivered run(const ImageFolder& files, const ImageDatasetOptions& data, const How& how,
              int epochs) {
  const auto dataset = std::make_shared<ImageDataset>(files, data);
  LoaderOptions options{.batch_size = how.batch, .workers = how.workers, .max_bad = 1};
  options.jpeg_decoder = how.decoder;
  options.jpeg_share = how.share;
  DeviceLoader loader(dataset, shuffle_sampler(files.size(), {.seed = 1}), options,
                      {.device = how.device, .pipeline = image_pipeline(how.device)});
  Delivered result;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loader.start_epoch(epoch);
    while (const auto batch = loader.next()) {
      result.images.push_back(batch->inputs.to_vector());
      result.indices.push_back(batch->indices);
    }
  }
  for (const BadSample& bad : loader.bad_samples()) {
    result.bad.push_back(bad.index);
    result.reasons.push_back(bad.reason);
  }
  result.note = loader.take_note();
  return result;
}

double largest_difference(const Delivered& a, const Delivered& b) {
  double most = 0;
  EXPECT_EQ(a.images.size(), b.images.size());
  for (size_t i = 0; i < std::min(a.images.size(), b.images.size()); ++i) {
    EXPECT_EQ(a.images[i].size(), b.images[i].size());
    for (size_t k = 0; k < std::min(a.images[i].size(), b.images[i].size()); ++k) {
      most = std::max(most, std::abs(a.images[i][k] - b.images[i][k]));
    }
  }
  return most;
}

double mean_difference(const Delivered& got, const Delivered& expected) {
  double sum = 0;
  int64_t values = 0;
  EXPECT_GE(got.images.size(), expected.images.size());
  for (size_t i = 0; i < std::min(got.images.size(), expected.images.size()); ++i) {
    EXPECT_EQ(got.images[i].size(), expected.images[i].size());
    for (size_t k = 0; k < std::min(got.images[i].size(), expected.images[i].size()); ++k) {
      sum += std::abs(got.images[i][k] - expected.images[i][k]);
      ++values;
    }
  }
  return sum / static_cast<double>(std::max<int64_t>(values, 1));
}

}  // namespace whisker::test
