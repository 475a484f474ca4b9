// What augmentation draws, measured in pixels: distributed as the configuration says, each draw
// with its own range. A record is read only to see that no draw depends on another.
#include "tests/data/transforms/augment_measure.h"
#include "tests/support/distribution.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// Values from 64 to 190 without a gray pixel: no jitter below is cut off.
Image colors() {
  return painted(
      8, 6, [](int x, int y, int c) { return 64 + (x * 13 + y * 29 + c * 47 + x * y * 3) % 127; });
}

TEST(AugmentDraws, FlipsHaveTheirOwnProbabilities) {
  const Image source = ramps(9, 5, 10, 9);
  constexpr size_t n = 4000;
  double across = 0, down = 0, both = 0;
  for (uint64_t index = 0; index < n; ++index) {
    const Result result =
        drawn(source, {5, 9}, {.flip_horizontal = 0.3, .flip_vertical = 0.6}, index);
    const bool x_flipped = result.at(0, 0, 0) != 10;
    const bool y_flipped = result.at(0, 0, 1) != 10;
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 9; ++x) {
        ASSERT_EQ(result.at(y, x, 0), 10 + 9 * (x_flipped ? 8 - x : x));
        ASSERT_EQ(result.at(y, x, 1), 10 + 9 * (y_flipped ? 4 - y : y));
      }
    }
    across += x_flipped;
    down += y_flipped;
    both += x_flipped && y_flipped;
  }
  expect_share(across, n, 0.3);
  expect_share(down, n, 0.6);
  expect_share(both, n, 0.18);
}

/// `result` is factor * value + (1 - factor) * base(pixel): gives the factor.
double measured_factor(const Result& result, const Image& source,
                       const std::function<double(const uint8_t* rgb)>& base) {
  double factor = 0, farthest = 0;
  for (const bool check : {false, true}) {
    for (int y = 0; y < source.height; ++y) {
      for (int x = 0; x < source.width; ++x) {
        const uint8_t* rgb = source.row(y) + 3 * x;
        for (int c = 0; c < 3; ++c) {
          const double from_base = rgb[c] - base(rgb);
          if (check) {
            EXPECT_NEAR(result.at(y, x, c), base(rgb) + factor * from_base, 2e-3);
          } else if (std::abs(from_base) > farthest) {
            farthest = std::abs(from_base);
            factor = (result.at(y, x, c) - base(rgb)) / from_base;
          }
        }
      }
    }
  }
  return factor;
}

double gray(const uint8_t* rgb) {
  return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
}

/// Hue in turns, saturation and value: Python's colorsys.rgb_to_hsv.
std::array<double, 3> hsv(double r, double g, double b) {
  const double most = std::max({r, g, b}), least = std::min({r, g, b});
  const double rc = (most - r) / (most - least), gc = (most - g) / (most - least),
               bc = (most - b) / (most - least);
  const double sextant = r == most ? bc - gc : g == most ? 2 + rc - bc : 4 + gc - rc;
  return {sextant / 6 - std::floor(sextant / 6), (most - least) / most, most};
}

TEST(AugmentDraws, JitterFactorsAreUniformInTheirOwnRanges) {
  const Image source = colors();
  const Image dark = painted(8, 6, [](int x, int y, int c) { return 20 + 5 * x + 7 * y + c; });
  double mean = 0;
  for (size_t i = 0; i < source.rgb.size(); i += 3) mean += gray(&source.rgb[i]);
  mean /= static_cast<double>(source.rgb.size()) / 3;
  Draws brightness, bright, contrast, saturation;
  const auto black = [](const uint8_t*) { return 0.0; };
  const auto measure = [&](const Image& image, const AugmentConfig& config, uint64_t index,
                           const std::function<double(const uint8_t*)>& base) {
    return measured_factor(drawn(image, {6, 8}, config, index), image, base);
  };
  for (uint64_t i = 0; i < 2000; ++i) {
    brightness.push_back(measure(source, {.brightness = 0.2}, i, black));
    bright.push_back(measure(dark, {.brightness = 1.6}, i, black));
    contrast.push_back(measure(source, {.contrast = 0.3}, i, [&](auto) { return mean; }));
    saturation.push_back(measure(source, {.saturation = 0.4}, i, gray));
  }
  expect_uniform(brightness, 0.8, 1.2, 1e-4);
  expect_uniform(bright, 0, 2.6, 1e-4);  // no factor is below 0
  expect_uniform(contrast, 0.7, 1.3, 1e-4);
  expect_uniform(saturation, 0.6, 1.4, 1e-4);
}

TEST(AugmentDraws, HueTurnsAreUniformAndKeepSaturationAndValue) {
  const Image source = colors();
  Draws turns;
  for (uint64_t index = 0; index < 2000; ++index) {
    const Result result = drawn(source, {6, 8}, {.hue = 0.2}, index);
    std::optional<double> turn;
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 8; ++x) {
        const uint8_t* rgb = source.row(y) + 3 * x;
        const auto before = hsv(rgb[0], rgb[1], rgb[2]);
        const auto after = hsv(result.at(y, x, 0), result.at(y, x, 1), result.at(y, x, 2));
        const double here = after[0] - before[0] - std::round(after[0] - before[0]);
        if (!turn) turn = here;
        ASSERT_NEAR(here, *turn, 1e-4);
        ASSERT_NEAR(after[1], before[1], 1e-4);
        ASSERT_NEAR(after[2], before[2], 1e-3);
      }
    }
    turns.push_back(*turn);
  }
  expect_uniform(turns, -0.2, 0.2, 1e-3);
}

/// Of rectangles with these extents in an outer one that none of the ranges leaves.
struct Rectangles {
  Draws share, ratio, left, top;
  void add(const ImageSize& outer, double x, double y, double width, double height) {
    share.push_back(width * height / (outer.width * outer.height));
    ratio.push_back(std::log(width / height));
    left.push_back((x + 0.5) / (outer.width - width + 1));
    top.push_back((y + 0.5) / (outer.height - height + 1));
  }
  void expect(const Range& scale, const Range& aspect) const {
    constexpr double slack = 0.02;  // half a pixel of sides from 60 on, in a narrow range
    expect_uniform(share, scale.low, scale.high, slack);
    expect_uniform(ratio, std::log(aspect.low), std::log(aspect.high), slack);
    expect_uniform(left, 0, 1, slack);
    expect_uniform(top, 0, 1, slack);
  }
};

TEST(AugmentDraws, CropsAreUniformInAreaRatioAndPosition) {
  const AugmentConfig config{
      .random_resized_crop = true, .crop_scale = {0.2, 0.5}, .crop_ratio = {0.8, 1.5}};
  const Image source = ramps(256, 192, 0, 1);
  Rectangles crops;
  for (uint64_t index = 0; index < 2000; ++index) {
    const Result result = drawn(source, {16, 16}, config, index);
    // A line through what the output's columns show, and one through its rows; the first and the
    // last are made of fewer pixels.
    const auto edges = [&](auto&& value) {
      double sum = 0, moment = 0, squares = 0;
      for (int i = 1; i < 15; ++i) {
        sum += value(i) / 14;
        moment += (i - 7.5) * value(i);
        squares += (i - 7.5) * (i - 7.5);
      }
      const double extent = 16 * moment / squares;
      return std::pair{sum + 0.5 - extent / 2, extent};
    };
    const auto [left, width] = edges([&](int i) { return result.at(8, i, 0); });
    const auto [top, height] = edges([&](int i) { return result.at(i, 8, 1); });
    crops.add({192, 256}, left, top, width, height);
  }
  crops.expect(config.crop_scale, config.crop_ratio);
}

TEST(AugmentDraws, ErasedRectanglesAreUniformInAreaRatioAndPosition) {
  const AugmentConfig config{.erase = 1, .erase_scale = {0.06, 0.25}, .erase_ratio = {0.5, 2.5}};
  const ImageSize size{200, 300};
  const Image source = painted(size.width, size.height, [](int, int, int) { return 200; });
  Rectangles erased;
  for (uint64_t index = 0; index < 1000; ++index) {
    const Result result = drawn(source, size, config, index);
    int left = size.width, right = -1, top = size.height, bottom = -1, count = 0;
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        if (result.at(y, x, 0) != 0) continue;
        left = std::min(left, x);
        right = std::max(right, x);
        top = std::min(top, y);
        bottom = std::max(bottom, y);
        ++count;
      }
    }
    ASSERT_EQ(count, (right - left + 1) * (bottom - top + 1));
    erased.add(size, left, top, right - left + 1, bottom - top + 1);
  }
  erased.expect(config.erase_scale, config.erase_ratio);
}

TEST(AugmentDraws, ErasingHasItsProbability) {
  const Image source = painted(20, 20, [](int, int, int) { return 200; });
  constexpr size_t n = 4000;
  double hits = 0;
  for (uint64_t index = 0; index < n; ++index) {
    const Result result = drawn(source, {20, 20}, {.erase = 0.25}, index);
    hits += std::ranges::find(result.values, 0.0f) != result.values.end();
  }
  expect_share(hits, n, 0.25);
}

/// Everything that is drawn for images from `key` on.
NamedDraws all_draws(DrawKey key, size_t n) {
  const AugmentConfig config{.random_resized_crop = true,
                             .crop_scale = {0.2, 0.4},
                             .crop_ratio = {0.8, 1.5},
                             .flip_horizontal = 0.3,
                             .flip_vertical = 0.6,
                             .rotation = 40,
                             .shear = 25,
                             .zoom = 0.3,
                             .shift_horizontal = 0.1,
                             .shift_vertical = 0.2,
                             .brightness = 0.2,
                             .contrast = 0.3,
                             .saturation = 0.4,
                             .hue = 0.2,
                             .erase = 1,
                             .erase_scale = {0.05, 0.2},
                             .erase_ratio = {0.5, 2}};
  const ImageSize source{300, 400}, size{200, 240};
  const std::pair<JitterKind, const char*> kinds[] = {{JitterKind::brightness, "brightness"},
                                                      {JitterKind::contrast, "contrast"},
                                                      {JitterKind::saturation, "saturation"},
                                                      {JitterKind::hue, "hue"}};
  NamedDraws draws;
  Rectangles crops, erased;
  for (size_t i = 0; i < n; ++i, ++key.index) {
    const ImageRecord record =
        sample_augmentation(config, without_normalising(size), key, source.height, source.width);
    const WarpParameters warp = parts_of(record.warp);
    draws["rotation"].push_back(warp.rotation);
    draws["shear"].push_back(warp.shear);
    draws["zoom across"].push_back(warp.zoom_x);
    draws["zoom down"].push_back(warp.zoom_y);
    draws["shift across"].push_back(warp.shift_x);
    draws["shift down"].push_back(warp.shift_y);
    draws["flip across"].push_back(record.flip_horizontal);
    draws["flip down"].push_back(record.flip_vertical);
    for (const auto& [kind, name] : kinds) {
      const auto* step = std::ranges::find(record.jitter, kind, &JitterStep::kind);
      draws[name].push_back(step->amount);
      if (kind == JitterKind::hue) {
        draws["position of the turn"].push_back(static_cast<double>(step - record.jitter));
      }
    }
    crops.add(source, record.crop.left, record.crop.top, record.crop.width, record.crop.height);
    const Rect& erase = record.erase;
    erased.add(size, erase.left, erase.top, erase.width, erase.height);
    draws["mixing"].push_back(sample_mix({.mixup = 1}, key, size).lambda);
  }
  for (const auto& [name, rectangles] : {std::pair{"crop's ", &crops}, {"erased ", &erased}}) {
    draws[name + std::string("share")] = rectangles->share;
    draws[name + std::string("ratio")] = rectangles->ratio;
    draws[name + std::string("left")] = rectangles->left;
    draws[name + std::string("top")] = rectangles->top;
  }
  return draws;
}

TEST(AugmentDraws, NoneDependsOnAnother) {
  constexpr size_t n = 4000;
  const auto draws = all_draws({7, 3, 0}, n);
  EXPECT_EQ(draws.size(), 22u);
  expect_independent(draws, draws, true);
  expect_independent(draws, all_draws({7, 3, 1}, n), false);
  expect_independent(draws, all_draws({7, 4, 0}, n), false);
  expect_independent(draws, all_draws({8, 3, 0}, n), false);
}

}  // namespace
}  // namespace whisker::test
