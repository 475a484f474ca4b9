// Preprocessing: geometry as torchvision's, stored form, errors that name the key.
#include "data/transforms/preprocess.h"

#include "core/error.h"
#include "tests/support/error_of.h"
#include "tests/support/finished_images.h"
#include "tests/support/image_files.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Preprocess, CenterOffsetRoundsHalfToEvenAsPython) {
  // Python: [round((a - b) / 2) for a, b in ...]
  const int table[][3] = {{5, 2, 2},      {7, 2, 2}, {4, 3, 0},  {6, 3, 2},  {256, 224, 16},
                          {341, 224, 58}, {3, 4, 0}, {2, 5, -2}, {1, 6, -2}, {10, 10, 0}};
  for (const auto& [outer, inner, offset] : table) {
    EXPECT_EQ(centered_offset(outer, inner), offset) << outer << " " << inner;
  }
}

TEST(Preprocess, ResizedExtents) {
  const Preprocess torchvision{.resize_short = 256, .crop = {224, 224}};
  EXPECT_EQ(resized_extents(torchvision, 374, 447), (ImageSize{256, 305}));  // 305.97 is truncated
  EXPECT_EQ(resized_extents(torchvision, 447, 374), (ImageSize{305, 256}));
  EXPECT_EQ(resized_extents(torchvision, 3, 3000), (ImageSize{256, 256000}));
  const Preprocess cover{.size = {64, 48}};
  EXPECT_EQ(resized_extents(cover, 100, 100), (ImageSize{64, 64}));
  EXPECT_EQ(resized_extents(cover, 100, 50), (ImageSize{96, 48}));
  const Preprocess box{.size = {64, 48}, .resize_mode = ResizeMode::letterbox};
  EXPECT_EQ(resized_extents(box, 100, 100), (ImageSize{48, 48}));
  EXPECT_EQ(resized_extents(box, 1000, 1), (ImageSize{64, 1}));
  const Preprocess squash{.size = {64, 48}, .resize_mode = ResizeMode::squash};
  EXPECT_EQ(resized_extents(squash, 100, 7), (ImageSize{64, 48}));
  const Preprocess middle{
      .size = {64, 48}, .crop = {32, 40}, .resize_mode = ResizeMode::squash_crop};
  EXPECT_EQ(resized_extents(middle, 100, 7), (ImageSize{64, 48}));
  EXPECT_EQ(middle.output(), (ImageSize{32, 40}));
  EXPECT_EQ(preprocess_record(middle, 100, 7).rows.first, 16);
}

// resize() is tested against Pillow; here the cut, the bars, the order of channels and the numbers.
TEST(Preprocess, CropIsTheCenterOfTheResizedImageNormalised) {
  const Image image = test::sample_image(91, 60);
  Preprocess preprocess{.resize_short = 33, .crop = {21, 32}};
  preprocess.normalisation.mean = {0.485, 0.456, 0.406};
  preprocess.normalisation.std = {0.229, 0.224, 0.225};
  const auto out = test::preprocessed(preprocess, image);
  ASSERT_EQ(out.size(), 21u * 32 * 3);
  Image resized;
  ResizeScratch scratch;
  resize(ImageView(image), {0, 0, 91, 60}, {.height = 33, .width = 50}, resized, scratch);
  for (int y = 0; y < 21; ++y) {
    for (int x = 0; x < 32; ++x) {
      for (size_t c = 0; c < 3; ++c) {
        const double value = resized.row(y + 6)[3 * static_cast<size_t>(x + 9) + c] / 255.0;
        const double expected =
            (value - preprocess.normalisation.mean[c]) / preprocess.normalisation.std[c];
        EXPECT_NEAR(out[static_cast<size_t>(y * 32 + x) * 3 + c], expected, 1e-6);
      }
    }
  }
}

TEST(Preprocess, StripsCostNoMoreThanTheirCenter) {
  Image strip;
  strip.reshape(1, 65500);
  std::fill(strip.rgb.begin(), strip.rgb.end(), uint8_t{51});
  const auto out = test::preprocessed({.resize_short = 256, .crop = {224, 224}}, strip);
  EXPECT_NEAR(*std::min_element(out.begin(), out.end()), 0.2, 1e-6);
  EXPECT_NEAR(*std::max_element(out.begin(), out.end()), 0.2, 1e-6);
  const Preprocess largest{.resize_short = 65535, .crop = {8, 8}};
  EXPECT_EQ(resized_extents(largest, 65500, 1), (ImageSize{1 << 30, 65535}));
  EXPECT_EQ(test::preprocessed(largest, strip).size(), 192u);
}

TEST(Preprocess, LetterboxKeepsTheShapeBetweenBlackBars) {
  Image image;
  image.reshape(10, 40);
  std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{255});
  const auto out =
      test::preprocessed({.size = {20, 20}, .resize_mode = ResizeMode::letterbox}, image);
  for (size_t y = 0; y < 20; ++y) {
    const float expected =
        y >= 8 && y < 13 ? 1.0f : 0.0f;  // 5 rows, (20 - 5) / 2 = 7.5 rounds to 8
    for (size_t i = 0; i < 60; ++i) EXPECT_EQ(out[y * 60 + i], expected) << y;
  }
}

TEST(Preprocess, GrayIsRec601) {
  Image image;
  image.reshape(1, 2);
  image.rgb = {200, 100, 50, 7, 7, 7};
  const auto out =
      test::preprocessed({.size = {1, 2}, .channels = 1, .normalisation = {.scale = 1}}, image);
  EXPECT_EQ(out, (std::vector<float>{124, 7}));  // 59.8 + 58.7 + 5.7 = 124.2
}

TEST(Preprocess, StoredFormReadsBack) {
  Preprocess preprocess{
      .resize_short = 256, .crop = {224, 192}, .interpolation = Interpolation::bicubic};
  preprocess.antialias = false;
  preprocess.normalisation.mean = {0.485, 0.456, 0.406};
  preprocess.normalisation.std = {0.229, 0.224, 0.225};
  const std::string json = preprocess.json();
  EXPECT_EQ(
      json,
      R"({"resize_short":256,"crop":[224,192],"resize_mode":"crop","interpolation":"bicubic",)"
      R"("antialias":false,"channels":"RGB","scale":0.00392156862745098,)"
      R"("mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})");
  EXPECT_EQ(Preprocess::from_json(json, "m").json(), json);
  const Preprocess gray{.size = {28, 28}, .resize_mode = ResizeMode::squash, .channels = 1};
  EXPECT_EQ(Preprocess::from_json(gray.json(), "m").json(), gray.json());
  // Without the keys, as weights of versions before them: the rules of then.
  EXPECT_EQ(Preprocess::from_json(json, "m").rules, (DecodeRules{.version = 1, .png_bits = 16}));
  Preprocess now = gray;
  now.rules = {.png_bits = 12};
  EXPECT_THAT(now.json(), testing::EndsWith(R"("rules":3,"png_bits":12})"));
  EXPECT_EQ(Preprocess::from_json(now.json(), "m").rules, now.rules);
}

TEST(Preprocess, ErrorsNameTheKey) {
  const auto reason = [](const char* json) {
    return test::message_of(ErrorKind::checkpoint,
                            [&] { (void)Preprocess::from_json(json, "w.safetensors"); });
  };
  EXPECT_EQ(reason(R"({"resize_shrt": 3})"),
            "w.safetensors: preprocess: unknown key 'resize_shrt'; did you mean 'resize_short'?");
  EXPECT_EQ(reason(R"({"size": 8, "resize_mode": "stretch"})"),
            "w.safetensors: preprocess.resize_mode: expected one of crop, squash, letterbox, "
            "squash_crop, got 'stretch'");
  EXPECT_EQ(
      reason(R"({"size": 8, "rules": 4})"),
      "w.safetensors: preprocess.rules: expected 1 to 3, got 4. A newer version of whisker may "
      "have written it.");
  EXPECT_EQ(reason(R"({"crop": 8})"),
            "w.safetensors: preprocess: expected either size or resize_short, got neither");
  EXPECT_EQ(reason(R"({"resize_short": 8, "crop": 9})"),
            "w.safetensors: preprocess.crop: 9x9 does not fit the resized 8x8");
  EXPECT_EQ(reason(R"({"size": [8, 8, 3]})"),
            "w.safetensors: preprocess.size: expected a number or [height, width], got 3 numbers");
  EXPECT_EQ(reason(R"({"size": 0})"), "w.safetensors: preprocess.size: expected 1 to 65535, got 0");
  EXPECT_EQ(reason(R"({"resize_short": 8, "resize_mode": "squash"})"),
            "w.safetensors: preprocess.resize_mode: squash needs size, not resize_short");
  EXPECT_EQ(reason(R"({"size": 8, "crop": 6, "resize_mode": "squash_crop"})"), "no error");
  EXPECT_EQ(
      reason(R"({"size": 8, "crop": 6, "resize_mode": "squash"})"),
      "w.safetensors: preprocess.crop: only resize_mode crop and squash_crop have a crop, not "
      "squash");
  for (const char* key : {"scale", "mean", "std"}) {
    const bool mean = std::string_view(key) == "mean";
    for (const char* value : {"1e308", "-1e308", "1.1e6", "0", "-1", "1e-308"}) {
      const bool small = std::abs(std::strtod(value, nullptr)) <= 1;  // which a mean may be
      EXPECT_EQ(reason(fmt::format(R"({{"size": 8, "{}": {}}})", key, value).c_str()),
                mean && small
                    ? "no error"
                    : fmt::format("w.safetensors: preprocess.{}: expected a number from {} to "
                                  "1000000, got {}",
                                  key, mean ? "-1000000" : "1e-06", std::strtod(value, nullptr)));
    }
  }
  EXPECT_EQ(reason(R"({"size": 8, "std": [1, 0, 1]})"),
            "w.safetensors: preprocess.std: expected a number from 1e-06 to 1000000, got 0");
  EXPECT_NE(reason(R"({"size": 8, "antialias": 1})").find("antialias"), std::string::npos);
}

}  // namespace
}  // namespace whisker
