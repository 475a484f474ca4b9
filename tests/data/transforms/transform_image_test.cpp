// transform_image() against its definition in plain double-precision loops.
#include "data/transforms/transform_image.h"

#include "core/error.h"
#include "core/image/image_arithmetic.h"
#include "data/transforms/augment_sampler.h"
#include "tests/support/error_of.h"
#include "tests/support/finished_images.h"
#include "tests/support/image_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using Pixels = std::vector<double>;  // (H, W, 3) in [0, 255]

// The pixel that a fill mode shows outside, one step at a time.
int outside(int i, int size, FillMode mode) {
  while (i < 0 || i >= size) {
    switch (mode) {
      case FillMode::constant:
        return -1;
      case FillMode::nearest:
        i = i < 0 ? 0 : size - 1;
        break;
      case FillMode::reflect:
        i = i < 0 ? -1 - i : 2 * size - 1 - i;
        break;
      case FillMode::wrap:
        i += i < 0 ? size : -size;
        break;
    }
  }
  return i;
}

Pixels reference_warp(const ImageRecord& record, const ImageSize& size, const Pixels& from) {
  const double* m = record.warp;
  Pixels to(from.size());
  const auto at = [&](int y, int x, int c) {
    y = outside(y, size.height, record.fill_mode);
    x = outside(x, size.width, record.fill_mode);
    return y < 0 || x < 0 ? static_cast<double>(record.fill_value)
                          : from[static_cast<size_t>((y * size.width + x) * 3 + c)];
  };
  for (int row = 0; row < size.height; ++row) {
    for (int column = 0; column < size.width; ++column) {
      const double x = column + 0.5 - size.width / 2.0;
      const double y = row + 0.5 - size.height / 2.0;
      const double sx = m[0] * x + m[1] * y + m[2] + size.width / 2.0 - 0.5;
      const double sy = m[3] * x + m[4] * y + m[5] + size.height / 2.0 - 0.5;
      const int left = static_cast<int>(std::floor(sx));
      const int top = static_cast<int>(std::floor(sy));
      for (int c = 0; c < 3; ++c) {
        double value = 0;
        for (int dy = 0; dy < 2; ++dy) {
          for (int dx = 0; dx < 2; ++dx) {
            value += at(top + dy, left + dx, c) * (1 - std::abs(sx - left - dx)) *
                     (1 - std::abs(sy - top - dy));
          }
        }
        to[static_cast<size_t>((row * size.width + column) * 3 + c)] = value;
      }
    }
  }
  return to;
}

double gray(const double* rgb) {
  return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

// HSV to RGB by its six sectors.
void reference_hue(double* rgb, double turn) {
  const double high = std::max({rgb[0], rgb[1], rgb[2]});
  const double low = std::min({rgb[0], rgb[1], rgb[2]});
  if (high == low) return;
  double hue = high == rgb[0]   ? (rgb[1] - rgb[2]) / (high - low)
               : high == rgb[1] ? 2 + (rgb[2] - rgb[0]) / (high - low)
                                : 4 + (rgb[0] - rgb[1]) / (high - low);
  hue = hue / 6 + turn;
  hue = (hue - std::floor(hue)) * 6;
  const int sector = std::min(static_cast<int>(hue), 5);
  const double f = hue - sector;
  const double saturation = (high - low) / high;
  const double p = high * (1 - saturation);
  const double q = high * (1 - saturation * f);
  const double t = high * (1 - saturation * (1 - f));
  const std::array<std::array<double, 3>, 6> sectors = {
      {{high, t, p}, {q, high, p}, {p, high, t}, {p, q, high}, {t, p, high}, {high, p, q}}};
  std::copy_n(sectors[static_cast<size_t>(sector)].begin(), 3, rgb);
}

void reference_jitter(const JitterStep& step, Pixels& image) {
  double mean = 0;
  for (size_t i = 0; i < image.size(); i += 3)
    mean += gray(&image[i]) * 3 / static_cast<double>(image.size());
  for (size_t i = 0; i < image.size(); i += 3) {
    const double own = gray(&image[i]);
    if (step.kind == JitterKind::hue) reference_hue(&image[i], step.amount);
    for (size_t c = 0; c < 3 && step.kind != JitterKind::hue; ++c) {
      const double base = step.kind == JitterKind::brightness ? 0
                          : step.kind == JitterKind::contrast ? mean
                                                              : own;
      image[i + c] = std::clamp(step.amount * image[i + c] + (1 - step.amount) * base, 0.0, 255.0);
    }
  }
}

std::vector<double> reference(const Image& source, const ImageRecord& record,
                              const Preprocess& preprocess) {
  const auto [height, width] = preprocess.output();
  const Rect& place = record.place;
  Image resized;
  ResizeScratch scratch;
  resize(ImageView(source, record.crop),
         {0, 0, double(record.crop.width), double(record.crop.height)},
         {.height = place.height, .width = place.width, .interpolation = record.interpolation},
         resized, scratch);
  Pixels image(static_cast<size_t>(height * width * 3), 0.0);
  for (int y = 0; y < place.height; ++y) {
    for (int x = 0; x < place.width; ++x) {
      const int from_y = record.flip_vertical ? place.height - 1 - y : y;
      const int from_x = record.flip_horizontal ? place.width - 1 - x : x;
      const uint8_t* rgb = resized.row(from_y) + 3 * from_x;
      for (int c = 0; c < 3; ++c) {
        image[static_cast<size_t>(((place.top + y) * width + place.left + x) * 3 + c)] =
            preprocess.channels == 1 ? gray_of(rgb) : rgb[c];
      }
    }
  }
  if (record.warps) image = reference_warp(record, {height, width}, image);
  for (int i = 0; i < record.jitter_steps; ++i) reference_jitter(record.jitter[i], image);
  std::vector<double> out;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < preprocess.channels; ++c) {
        const auto k = static_cast<size_t>(c);
        const double value = image[static_cast<size_t>((y * width + x) * 3 + c)];
        const Normalisation& n = preprocess.normalisation;
        const Rect& erase = record.erase;
        const bool erased = x >= erase.left && y >= erase.top && x < erase.left + erase.width &&
                            y < erase.top + erase.height;
        out.push_back(erased ? 0 : (value * n.scale - n.mean[k]) / n.std[k]);
      }
    }
  }
  return out;
}

TEST(TransformImage, EqualsTheDoublePrecisionDefinition) {
  const Image source = test::sample_image(83, 61);
  TransformScratch scratch;
  int compared = 0;
  for (const auto& [name, config] : test::augmentations()) {
    config.check();
    for (const int channels : {3, 1}) {
      for (const auto mode : {ResizeMode::crop, ResizeMode::letterbox}) {
        for (uint64_t index = 0; index < 12; ++index) {
          const Preprocess preprocess = test::imagenet({24, 37}, mode, channels);
          const ImageRecord record = sample_augmentation(config, preprocess, {5, 2, index}, 61, 83);
          std::vector<float> out(static_cast<size_t>(24 * 37 * channels));
          transform_image(ImageView(source, record.crop), record,
                          {.values = out, .size = {24, 37}, .channels = channels}, scratch);
          const auto expected = reference(source, record, preprocess);
          ASSERT_EQ(out.size(), expected.size());
          double most = 0;
          for (size_t i = 0; i < out.size(); ++i)
            most = std::max(most, std::abs(out[i] - expected[i]));
          // A dozen f32 roundings of values up to 255, then / 255 / 0.22; hue divides by small
          // chroma.
          EXPECT_LT(most, 2e-5) << name << " channels " << channels << " index " << index;
          ++compared;
        }
      }
    }
  }
  std::printf("augmented images equal to the definition: %d\n", compared);
}

// A center crop resamples what it shows alone, so its edge is made of fewer pixels.
TEST(TransformImage, PlainRecordEqualsPreprocess) {
  for (const auto& [width, height] : {std::pair{80, 80}, {160, 80}, {60, 120}}) {
    const Image source = test::sample_image(width, height);
    for (const auto mode : {ResizeMode::crop, ResizeMode::squash, ResizeMode::letterbox}) {
      constexpr int columns = 24;
      const Preprocess preprocess = test::imagenet({32, columns}, mode);
      const ImageRecord record = plain_augmentation(preprocess, height, width);
      const auto expected = test::preprocessed(preprocess, source);
      std::vector<float> out(expected.size());
      TransformScratch scratch;
      transform_image(ImageView(source, record.crop), record,
                      {.values = out, .size = {32, columns}}, scratch);
      const int edge = mode == ResizeMode::crop ? 2 : 0;
      for (int y = edge; y < 32 - edge; ++y) {
        for (int i = 3 * edge; i < 3 * (columns - edge); ++i) {
          const auto at = static_cast<size_t>(3 * y * columns + i);
          ASSERT_EQ(out[at], expected[at]) << width << 'x' << height << " row " << y;
        }
      }
    }
  }
}

TEST(TransformImage, FastDecodingChangesLittle) {
  const auto file = test::write_jpeg(test::sample_image(640, 480), {.quality = 95});
  const AugmentConfig config{.random_resized_crop = true, .flip_horizontal = 0.5};
  const Preprocess preprocess{.size = {48, 48}};
  Decoded exact, fast;
  decode(file, {}, exact);
  TransformScratch scratch;
  std::vector<float> a(48 * 48 * 3), b(a);
  std::map<int, int> scales;
  for (uint64_t index = 0; index < 60; ++index) {
    const ImageRecord record = sample_augmentation(config, preprocess, {1, 0, index}, 480, 640);
    decode(file, {.fast = CropRequest{record.crop, 48, 48}}, fast);
    ++scales[fast.scale];
    for (const auto& [decoded, values] : {std::pair{&exact, &a}, {&fast, &b}}) {
      ImageRecord about = record;
      const ImageView view = crop_source(*decoded, about);
      transform_image(view, about, {.values = *values, .size = {48, 48}}, scratch);
    }
    double total = 0;
    for (size_t i = 0; i < a.size(); ++i) total += std::abs(a[i] - b[i]);
    EXPECT_LT(total / static_cast<double>(a.size()), fast.scale == 1 ? 1e-9 : 0.012)
        << "scale " << fast.scale;
  }
  EXPECT_GE(scales.size(), 3u);
}

TEST(TransformImage, ThreadsGiveTheSamePixels) {
  const Image source = test::sample_image(90, 70);
  const auto run = [&](uint64_t index) {
    TransformScratch scratch;
    std::vector<float> out(40 * 40 * 3);
    const AugmentConfig config = test::augmentations().back().config;
    const ImageRecord record = sample_augmentation(
        config, test::imagenet({40, 40}, ResizeMode::crop), {3, 1, index}, 70, 90);
    transform_image(ImageView(source, record.crop), record, {.values = out, .size = {40, 40}},
                    scratch);
    return out;
  };
  std::vector<std::vector<float>> results(32);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = t; i < results.size(); i += 4) results[i] = run(i);
      });
    }
  }
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], run(i));
  EXPECT_NE(results[0], results[1]);
}

TEST(TransformImage, WrongSizesAreUsageErrors) {
  const Image source = test::sample_image(20, 10);
  std::vector<float> out(8 * 8 * 3);
  const auto reason = [&](const ImageRecord& record, const ImageOutput& output) {
    return test::message_of(ErrorKind::usage, [&] {
      TransformScratch scratch;
      transform_image(ImageView(source), record, output, scratch);
    });
  };
  const Preprocess preprocess{.size = {8, 8}, .resize_mode = ResizeMode::squash};
  const ImageRecord good = preprocess_record(preprocess, 10, 20);
  EXPECT_EQ(reason(good, {.values = out, .size = {8, 8}}), "no error");
  EXPECT_EQ(reason(preprocess_record(preprocess, 11, 20), {.values = out, .size = {8, 8}}),
            "transform_image: a record about 20x11 pixels, got 20x10");
  EXPECT_EQ(reason(good, {.values = out, .size = {8, 8}, .channels = 2}),
            "transform_image: output 8x8 with 2 channels; 1 or 3 are possible");
  EXPECT_EQ(reason(good, {.values = std::span(out).first(9), .size = {8, 8}}),
            "transform_image: expected memory for 8x8x3 values, got 9");
  ImageRecord outside = good;
  outside.columns.from = -1;
  EXPECT_EQ(reason(outside, {.values = out, .size = {8, 8}}),
            "resize: box (-1, 0, 20, 10) is empty or leaves the 20x10 image");
  outside = good;
  outside.erase = {5, 5, 4, 2};
  EXPECT_EQ(reason(outside, {.values = out, .size = {8, 8}}),
            "transform_image: rectangle 4x2 at (5,5) is not inside the 8x8 output");
  outside = good;
  outside.place.width = 7;
  EXPECT_EQ(reason(outside, {.values = out, .size = {8, 8}}),
            "transform_image: 8x8 pixels are placed on 7x8");
}

}  // namespace
}  // namespace whisker
