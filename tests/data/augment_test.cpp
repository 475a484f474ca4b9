// augment_picture() against its definition in plain double-precision loops.
#include "data/augment.h"

#include "core/error.h"
#include "data/augment_sampler.h"
#include "tests/support/picture_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using Image = std::vector<double>;  // (H, W, 3) in [0, 255]

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

Image reference_warp(const AugmentRecord& record, const Image& from) {
  const auto& m = *record.warp;
  Image to(from.size());
  const auto at = [&](int y, int x, int c) {
    y = outside(y, record.height, record.fill_mode);
    x = outside(x, record.width, record.fill_mode);
    return y < 0 || x < 0 ? record.fill_value
                          : from[static_cast<size_t>((y * record.width + x) * 3 + c)];
  };
  for (int row = 0; row < record.height; ++row) {
    for (int column = 0; column < record.width; ++column) {
      const double x = column + 0.5 - record.width / 2.0;
      const double y = row + 0.5 - record.height / 2.0;
      const double sx = m[0] * x + m[1] * y + m[2] + record.width / 2.0 - 0.5;
      const double sy = m[3] * x + m[4] * y + m[5] + record.height / 2.0 - 0.5;
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
        to[static_cast<size_t>((row * record.width + column) * 3 + c)] = value;
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

void reference_jitter(const JitterStep& step, Image& image) {
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

std::vector<double> reference(const Picture& source, const AugmentRecord& record) {
  const Rect place = record.place.value_or(Rect{0, 0, record.width, record.height});
  Picture resized;
  ResizeScratch scratch;
  resize(PictureView(source, record.crop),
         {0, 0, double(record.crop.width), double(record.crop.height)},
         {.height = place.height, .width = place.width, .interpolation = record.interpolation},
         resized, scratch);
  Image image(static_cast<size_t>(record.height * record.width * 3), 0.0);
  for (int y = 0; y < record.height; ++y) {
    for (int x = 0; x < record.width; ++x) {
      const int from_y = (record.flip_vertical ? record.height - 1 - y : y) - place.top;
      const int from_x = (record.flip_horizontal ? record.width - 1 - x : x) - place.left;
      if (from_y < 0 || from_x < 0 || from_y >= place.height || from_x >= place.width) continue;
      const uint8_t* rgb = resized.row(from_y) + 3 * from_x;
      for (int c = 0; c < 3; ++c) {
        image[static_cast<size_t>((y * record.width + x) * 3 + c)] =
            record.channels == 1 ? gray_of(rgb) : rgb[c];
      }
    }
  }
  if (record.warp) image = reference_warp(record, image);
  for (int i = 0; i < record.jitter_steps; ++i)
    reference_jitter(record.jitter[static_cast<size_t>(i)], image);
  std::vector<double> out;
  for (int y = 0; y < record.height; ++y) {
    for (int x = 0; x < record.width; ++x) {
      for (int c = 0; c < record.channels; ++c) {
        const auto k = static_cast<size_t>(c);
        const double value = image[static_cast<size_t>((y * record.width + x) * 3 + c)];
        const auto& n = record.normalisation;
        const bool erased = record.erase && x >= record.erase->left && y >= record.erase->top &&
                            x < record.erase->left + record.erase->width &&
                            y < record.erase->top + record.erase->height;
        out.push_back(erased ? record.erase_value[k] : (value * n.scale - n.mean[k]) / n.std[k]);
      }
    }
  }
  return out;
}

Preprocess imagenet(int height, int width) {
  Preprocess preprocess{.size = {height, width}};
  preprocess.normalisation.mean = {0.485, 0.456, 0.406};
  preprocess.normalisation.std = {0.229, 0.224, 0.225};
  return preprocess;
}

struct NamedConfig {
  const char* name;
  AugmentConfig config;
};

std::vector<NamedConfig> configs() {
  std::vector<NamedConfig> list = {
      {"none", {}},
      {"crop and flips",
       {.random_resized_crop = true, .flip_horizontal = 0.5, .flip_vertical = 0.5}},
      {"keras", {.flip_horizontal = 0.5, .shear = 20, .zoom = 0.2}},
      {"jitter", {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}},
      {"hue", {.hue = 0.5}},
      {"erase", {.erase = 1}},
      {"all",
       {.random_resized_crop = true,
        .flip_horizontal = 0.5,
        .rotation = 90,
        .brightness = 0.3,
        .contrast = 0.3,
        .saturation = 0.3,
        .hue = 0.1,
        .erase = 0.5}}};
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
  return list;
}

TEST(Augment, EqualsTheDoublePrecisionDefinition) {
  const Picture source = test::sample_picture(83, 61);
  AugmentScratch scratch;
  int compared = 0;
  for (const auto& [name, config] : configs()) {
    config.check();
    for (const int channels : {3, 1}) {
      for (const auto mode : {ResizeMode::crop, ResizeMode::letterbox}) {
        for (uint64_t index = 0; index < 12; ++index) {
          Preprocess preprocess = imagenet(24, 37);
          preprocess.channels = channels;
          preprocess.resize_mode = mode;
          const AugmentRecord record =
              sample_augmentation(config, preprocess, {5, 2, index}, 61, 83);
          std::vector<float> out(static_cast<size_t>(24 * 37 * channels));
          augment_picture(source, record, out, scratch);
          const auto expected = reference(source, record);
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
  std::printf("augmented pictures equal to the definition: %d\n", compared);
}

TEST(Augment, PlainRecordEqualsPreprocess) {
  const Picture source = test::sample_picture(80, 80);
  for (const auto mode : {ResizeMode::crop, ResizeMode::squash, ResizeMode::letterbox}) {
    Preprocess preprocess = imagenet(32, mode == ResizeMode::crop ? 32 : 24);
    preprocess.resize_mode = mode;
    const AugmentRecord record = plain_augmentation(preprocess, 80, 80);
    const auto expected = apply(preprocess, source);
    std::vector<float> out(expected.size());
    AugmentScratch scratch;
    augment_picture(source, record, out, scratch);
    EXPECT_EQ(out, expected);
  }
}

TEST(Augment, FastDecodingChangesLittle) {
  const auto file = test::write_jpeg(test::sample_picture(640, 480), {.quality = 95});
  const AugmentConfig config{.random_resized_crop = true, .flip_horizontal = 0.5};
  const Preprocess preprocess{.size = {48, 48}};
  Decoded exact, fast;
  decode(file, {}, exact);
  AugmentScratch scratch;
  std::vector<float> a(48 * 48 * 3), b(a);
  std::map<int, int> scales;
  for (uint64_t index = 0; index < 60; ++index) {
    const AugmentRecord record = sample_augmentation(config, preprocess, {1, 0, index}, 480, 640);
    decode(file, {.fast = CropRequest{record.crop, 48, 48}}, fast);
    ++scales[fast.scale];
    augment_picture(exact, record, a, scratch);
    augment_picture(fast, record, b, scratch);
    double total = 0;
    for (size_t i = 0; i < a.size(); ++i) total += std::abs(a[i] - b[i]);
    EXPECT_LT(total / static_cast<double>(a.size()), fast.scale == 1 ? 1e-9 : 0.012)
        << "scale " << fast.scale;
  }
  EXPECT_GE(scales.size(), 3u);
}

TEST(Augment, ThreadsGiveTheSamePixels) {
  const Picture source = test::sample_picture(90, 70);
  const auto run = [&](uint64_t index) {
    AugmentScratch scratch;
    std::vector<float> out(40 * 40 * 3);
    const AugmentConfig config = configs()[6].config;
    augment_picture(source, sample_augmentation(config, imagenet(40, 40), {3, 1, index}, 70, 90),
                    out, scratch);
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

TEST(Augment, WrongSizesAreUsageErrors) {
  const Picture source = test::sample_picture(20, 10);
  AugmentScratch scratch;
  std::vector<float> out(8 * 8 * 3);
  const auto reason = [&](const AugmentRecord& record, std::span<float> room) {
    try {
      augment_picture(source, record, room, scratch);
      return std::string("accepted");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(reason({.crop = {0, 0, 20, 11}, .height = 8, .width = 8}, out),
            "augment: crop 20x11 at (0,0) is not inside the 20x10 picture");
  EXPECT_EQ(reason({.crop = {0, 0, 20, 10}, .height = 8, .width = 8, .channels = 2}, out),
            "augment: output 8x8 with 2 channels; 1 or 3 are possible");
  EXPECT_EQ(reason({.crop = {0, 0, 20, 10}, .height = 8, .width = 8}, std::span(out).first(9)),
            "augment: room for 9 values, 8x8x3 are written");
  EXPECT_EQ(
      reason({.crop = {0, 0, 20, 10}, .height = 8, .width = 8, .erase = Rect{5, 5, 4, 2}}, out),
      "augment: rectangle 4x2 at (5,5) is not inside the 8x8 output");
}

}  // namespace
}  // namespace whisker
