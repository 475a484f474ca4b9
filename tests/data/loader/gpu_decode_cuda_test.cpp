// nvJPEG against the host's decoder: pixels, training batches and what is refused.
#include "core/backend/backend.h"
#include "data/codec/decode.h"
#include "data/codec/plain_jpeg.h"
#include "tests/support/decoded_batches.h"
#include "tests/support/devices.h"
#include "tests/support/test_data.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using test::augmented;
using test::copy_odd_images;
using test::Delivered;
using test::largest_difference;
using test::mean_difference;
using test::run;
using test::write_images;

constexpr Device gpu{DeviceKind::cuda, 0};

class GpuDecodeCuda : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
    std::string why;
    decoder_ = backend_of(gpu).make_jpeg_decoder(why);
    if (!decoder_) GTEST_SKIP() << "skipped: no nvJPEG (" << why << ")";
  }
  std::shared_ptr<JpegDecoder> decoder_;
};

struct Differences {
  double mean = 0;
  int most = 0;
  double beyond_sixteen = 0;  // share of the values
};

/// Between the device's pixels, which record `row` of a one-image batch would read, and ours.
Differences differences(const std::vector<uint8_t>& got, const Image& expected) {
  Differences result;
  for (size_t i = 0; i < got.size(); ++i) {
    const int difference = std::abs(int{got[i]} - int{expected.rgb[i]});
    result.mean += difference;
    result.most = std::max(result.most, difference);
    result.beyond_sixteen += difference > 16;
  }
  result.mean /= static_cast<double>(got.size());
  result.beyond_sixteen /= static_cast<double>(got.size());
  return result;
}

// Real photographs. Both decoders compute the inverse DCT and the colours with errors of about a
// level, and interpolate chroma differently: against a libjpeg that repeats chroma samples ours
// differs by up to 1.2 levels in the mean over such an image, with 0.7 % of the values off by more
// than 16. Twice that, or so, is the tolerance.
TEST_F(GpuDecodeCuda, PixelsAreTheHosts) {
  const auto root = test::test_data_dir() / "cats_dogs_original" / "cat";
  std::vector<std::vector<uint8_t>> files;
  if (std::filesystem::exists(root)) {
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
      if (files.size() < 24) files.push_back(test::read_bytes(entry.path()));
    }
  }
  for (int i = 0; i < 24; ++i) {
    files.push_back(test::write_jpeg(test::sample_image(200 + 9 * i, 180 + 7 * i),
                                     {.h_samples = 1 + i % 2, .v_samples = 1 + i % 4 / 3}));
  }
  std::vector<JpegImage> images;
  std::vector<size_t> which;
  std::vector<std::string> plain(files.size());
  int64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    plain[i] = plain_jpeg(files[i]).value_or("");
    const std::span file(reinterpret_cast<const uint8_t*>(plain[i].data()), plain[i].size());
    const ImageHeader header = read_header(files[i]);
    if (header.orientation != 1 || file.empty() || !decoder_->accepts(file)) continue;
    images.push_back({.bytes = file,
                      .height = header.height,
                      .width = header.width,
                      .at = bytes});
    bytes += int64_t{3} * header.height * header.width + 256;
    which.push_back(i);
  }
  std::printf("%s accepts %zu of %zu files\n", decoder_->description().c_str(), images.size(),
              files.size());
  ASSERT_GT(images.size(), files.size() / 2);
  for (int round = 0; round < 3; ++round) {  // memory and states are used again
    const auto decoded = decoder_->decode(images, bytes);
    Differences worst;
    for (size_t i = 0; i < images.size(); ++i) {
      Decoded ours;
      decode(files[which[i]], {}, ours);
      std::vector<uint8_t> got(ours.image.rgb.size());
      backend_of(gpu).download(decoded->memory() + images[i].at, got.data(), std::ssize(got));
      const Differences found = differences(got, ours.image);
      EXPECT_LT(found.mean, 2) << "file " << which[i];
      EXPECT_LT(found.beyond_sixteen, 0.02) << "file " << which[i];
      worst.mean = std::max(worst.mean, found.mean);
      worst.most = std::max(worst.most, found.most);
      worst.beyond_sixteen = std::max(worst.beyond_sixteen, found.beyond_sixteen);
    }
    std::printf(
        "round %d: largest mean difference %.3f levels, largest %d, beyond 16 levels %.4f\n", round,
        worst.mean, worst.most, worst.beyond_sixteen);
  }
}

// The same files, bad ones and replacements; values differ by what the decoders do, which for such
// small images full of edges is up to 3.2 levels in the mean (see above).
TEST_F(GpuDecodeCuda, TrainingBatchesAreTheHostsWithinADecodersError) {
  TemporaryFolder folder;
  write_images(folder);
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, augmented(), {.device = gpu});
  for (const double share : {0.5, 1.0}) {
    const Delivered got = run(
        files, augmented(), {.device = gpu, .decoder = decoder_, .share = share, .workers = 3}, 6);
    const double mean = mean_difference(got, expected);
    Delivered begun = got;
    begun.images.resize(expected.images.size());
    const double largest = largest_difference(begun, expected);
    // Values are levels / 255.
    std::printf("share %.1f: mean difference %.4f, largest %.3f; note: %s\n", share, mean, largest,
                got.note.c_str());
    EXPECT_LT(mean, 4.0 / 255);
    EXPECT_GT(mean, 0) << "nothing was decoded by nvJPEG";
    EXPECT_EQ(got.bad, expected.bad);
    EXPECT_EQ(got.reasons, expected.reasons);
    EXPECT_EQ(got.note, "") << "nvJPEG refused what accepts() let through";
  }
}

TEST_F(GpuDecodeCuda, OddImagesAreTreatedAsOnTheHost) {
  TemporaryFolder folder;
  if (!copy_odd_images(folder)) GTEST_SKIP() << "no odd_images in " << test::test_data_dir();
  const ImageFolder files = open_image_folder(folder.path());
  const Delivered expected = run(files, augmented(), {.device = gpu}, 1);
  const Delivered got =
      run(files, augmented(), {.device = gpu, .decoder = decoder_, .share = 1, .workers = 3}, 1);
  EXPECT_EQ(got.indices, expected.indices);
  EXPECT_EQ(got.bad, expected.bad);
  EXPECT_EQ(got.reasons, expected.reasons);
  EXPECT_EQ(got.note, "");
  const double mean = mean_difference(got, expected);
  std::printf("odd images: mean difference %.4f, largest %.3f\n", mean,
              largest_difference(got, expected));
  EXPECT_LT(mean, 4.0 / 255);
}

}  // namespace
}  // namespace whisker
