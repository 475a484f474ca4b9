// Drawn augmentations repeat, come in every order, mix as they should, and refuse bad ranges; how
// their draws are distributed is in augment_draws_test.cpp and augment_warp_test.cpp.
#include "data/transforms/augment_sampler.h"

#include "core/error.h"
#include "tests/support/distribution.h"
#include "tests/support/error_of.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(AugmentSampler, CropsStayInTorchvisionsRangesAndFillThem) {
  double least = 1, most = 0, narrowest = 2, widest = 0;
  for (uint64_t index = 0; index < 4000; ++index) {
    const Rect crop = sample_augmentation({.random_resized_crop = true}, {.size = {32, 32}},
                                          {9, 0, index}, 300, 400)
                          .crop;
    ASSERT_TRUE(crop.left >= 0 && crop.top >= 0 && crop.left + crop.width <= 400 &&
                crop.top + crop.height <= 300);
    const double share = crop.width * crop.height / 120000.0;
    const double ratio = double(crop.width) / crop.height;
    least = std::min(least, share);
    most = std::max(most, share);
    narrowest = std::min(narrowest, ratio);
    widest = std::max(widest, ratio);
  }
  EXPECT_NEAR(least, 0.08, 0.005);
  EXPECT_NEAR(most, 1, 0.02);
  EXPECT_NEAR(narrowest, 3.0 / 4, 0.015);
  EXPECT_NEAR(widest, 4.0 / 3, 0.015);
}

TEST(AugmentSampler, CropsOfTinyImagesAreNotEmpty) {
  const AugmentConfig config{.random_resized_crop = true, .crop_scale = {1e-3, 1}};
  for (const auto& [height, width] : {std::pair{1, 1}, {3, 3}, {2, 5}, {5, 2}}) {
    for (uint64_t index = 0; index < 200; ++index) {
      const Rect crop =
          sample_augmentation(config, {.size = {8, 8}}, {1, 0, index}, height, width).crop;
      ASSERT_TRUE(crop.width > 0 && crop.height > 0) << width << 'x' << height;
    }
  }
}

// Only squares fit, that is ratios whose root is nearer to 1 than half a pixel of 100: one in ten.
TEST(AugmentSampler, RectanglesAreGivenUpAfterTenTries) {
  const double reach = 10 * 2 * std::log(1.005);
  const AugmentConfig config{
      .erase = 1, .erase_scale = {1, 1}, .erase_ratio = {std::exp(-reach), std::exp(reach)}};
  constexpr size_t n = 20000;
  double found = 0;
  for (uint64_t index = 0; index < n; ++index) {
    const auto erase =
        sample_augmentation(config, {.size = {100, 100}}, {1, 0, index}, 100, 100).erase;
    if (erase == Rect{}) continue;
    EXPECT_EQ(erase, (Rect{0, 0, 100, 100}));
    ++found;
  }
  test::expect_share(found, n, 1 - std::pow(0.9, 10));
}

TEST(AugmentSampler, ThinImagesFallBackToTheLargestCenteredCrop) {
  const AugmentConfig config{.random_resized_crop = true, .crop_scale = {0.9, 1}};
  const ImageRecord record = sample_augmentation(config, {.size = {32, 32}}, {1, 0, 0}, 10, 1000);
  EXPECT_EQ(record.crop, (Rect{493, 0, 13, 10}));
  const ImageRecord tall = sample_augmentation(config, {.size = {32, 32}}, {1, 0, 0}, 1000, 9);
  EXPECT_EQ(tall.crop, (Rect{0, 494, 9, 12}));
}

TEST(AugmentSampler, DrawsDependOnSeedEpochAndIndexAlone) {
  const AugmentConfig config{.random_resized_crop = true};
  const Preprocess preprocess{.size = {32, 32}};
  const auto crop = [&](DrawKey key) {
    return sample_augmentation(config, preprocess, key, 300, 400).crop;
  };
  EXPECT_EQ(crop({1, 2, 3}), crop({1, 2, 3}));
  EXPECT_FALSE(crop({1, 2, 3}) == crop({2, 2, 3}));
  EXPECT_FALSE(crop({1, 2, 3}) == crop({1, 3, 3}));
  EXPECT_FALSE(crop({1, 2, 3}) == crop({1, 2, 4}));
}

TEST(AugmentSampler, JitterComesInEveryOrder) {
  const AugmentConfig config{.brightness = 0.2, .contrast = 0.2, .saturation = 0.2, .hue = 0.1};
  std::map<std::array<JitterKind, 4>, int> orders;
  for (uint64_t index = 0; index < 2400; ++index) {
    const ImageRecord record = sample_augmentation(config, {.size = {8, 8}}, {1, 0, index}, 10, 10);
    ASSERT_EQ(record.jitter_steps, 4);
    std::array<JitterKind, 4> order{};
    for (size_t i = 0; i < 4; ++i) order[i] = record.jitter[i].kind;
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24u);
  for (const auto& [order, count] : orders) test::expect_share(count, 2400, 1.0 / 24);
}

/// The distribution function of Beta(a, a): the integral over t^(a-1) (1-t)^(a-1) by s = t^a.
double beta_share(double x, double a) {
  if (x > 0.5) return 1 - beta_share(1 - x, a);
  constexpr int steps = 200;
  const double width = std::pow(x, a) / steps;
  double sum = 0;
  for (int i = 0; i < steps; ++i) {
    sum += std::pow(1 - std::pow((i + 0.5) * width, 1 / a), a - 1) * width;
  }
  return sum / a * std::exp(std::lgamma(2 * a) - 2 * std::lgamma(a));
}

TEST(AugmentSampler, MixupFollowsBeta) {
  for (const double alpha : {0.2, 1.0, 4.0}) {
    SCOPED_TRACE(alpha);
    test::Draws shares;
    for (uint64_t batch = 0; batch < 4000; ++batch) {
      const BatchMix mix = sample_mix({.mixup = alpha}, {1, 0, batch}, {32, 48});
      ASSERT_EQ(mix.kind, BatchMix::Kind::mixup);
      shares.push_back(beta_share(mix.lambda, alpha));
    }
    test::expect_uniform(shares, 0, 1, 1e-3);
  }
}

// With alpha 1 the box's area before clipping is uniform. A side s of a box whose center is uniform
// in [0, 1] keeps s - s^2 / 4 of itself on average.
TEST(AugmentSampler, CutmixBoxesHaveTheAreaOfBeta) {
  const ImageSize extents{600, 900};
  test::Draws width, height, kept;
  for (uint64_t batch = 0; batch < 4000; ++batch) {
    const BatchMix mix = sample_mix({.cutmix = 1}, {1, 0, batch}, extents);
    ASSERT_EQ(mix.kind, BatchMix::Kind::cutmix);
    const Rect& box = mix.box;
    ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.left + box.width <= 900 &&
                box.top + box.height <= 600);
    EXPECT_DOUBLE_EQ(mix.lambda, 1 - box.width * box.height / (600.0 * 900));
    width.push_back(box.width / 900.0);
    height.push_back(box.height / 600.0);
    kept.push_back(mix.lambda);
  }
  test::expect_mean(width, 2.0 / 3 - 1.0 / 8);
  test::expect_mean(height, 2.0 / 3 - 1.0 / 8);
  test::expect_mean(kept, 1 - (1.0 / 2 - 1.0 / 5 + 1.0 / 48));
}

// With a large alpha every box has half the area before clipping.
TEST(AugmentSampler, CutmixBoxesAreAnywhere) {
  const ImageSize extents{600, 900};
  test::NamedDraws x, y;
  const auto center = [](int from, int length, int extent) {
    const double half = std::sqrt(0.5) * extent / 2;
    return (from > 0 ? from + half : from + length - half) / extent;
  };
  for (uint64_t batch = 0; batch < 4000; ++batch) {
    const Rect box = sample_mix({.cutmix = 1e5}, {1, 0, batch}, extents).box;
    x["across"].push_back(center(box.left, box.width, extents.width));
    y["down"].push_back(center(box.top, box.height, extents.height));
  }
  test::expect_uniform(x["across"], 0, 1, 0.005);
  test::expect_uniform(y["down"], 0, 1, 0.005);
  test::expect_independent(x, y, false);
}

TEST(AugmentSampler, BatchesTakeEitherMixOrNone) {
  double cuts = 0;
  for (uint64_t batch = 0; batch < 4000; ++batch) {
    const BatchMix mix = sample_mix({.mixup = 1, .cutmix = 1}, {1, 0, batch}, {32, 48});
    cuts += mix.kind == BatchMix::Kind::cutmix;
  }
  test::expect_share(cuts, 4000, 0.5);
  EXPECT_EQ(sample_mix({}, {1, 0, 0}, {32, 48}).kind, BatchMix::Kind::none);
}

std::string refusal(const AugmentConfig& config) {
  return test::message_of(ErrorKind::usage, [&] { config.check(); });
}

TEST(AugmentSampler, BadRangesAreNamed) {
  EXPECT_EQ(refusal({.crop_scale = {0.5, 0.2}}),
            "augment.crop_scale: expected [low, high] within [1e-06, 1], got [0.5, 0.2]");
  EXPECT_EQ(refusal({.zoom = 1}), "augment.zoom: expected a number from 0 to 0.99, got 1");
  EXPECT_EQ(refusal({.hue = std::nan("")}),
            "augment.hue: expected a number from 0 to 0.5, got nan");
}

TEST(AugmentSampler, RangesAreAcceptedUpToTheirBounds) {
  using Config = AugmentConfig;
  const std::pair<double Config::*, double> numbers[] = {
      {&Config::flip_horizontal, 1}, {&Config::flip_vertical, 1}, {&Config::rotation, 360},
      {&Config::shear, 89},          {&Config::zoom, 0.99},       {&Config::shift_horizontal, 1},
      {&Config::shift_vertical, 1},  {&Config::fill_value, 255},  {&Config::brightness, 1e6},
      {&Config::contrast, 1e6},      {&Config::saturation, 1e6},  {&Config::hue, 0.5},
      {&Config::erase, 1},           {&Config::mixup, 1e6},       {&Config::cutmix, 1e6}};
  for (const auto& [key, high] : numbers) {
    for (const auto& [value, fits] :
         {std::pair{0.0, true}, {high, true}, {-1e-9, false}, {high * 1.000001, false}}) {
      Config config;
      config.*key = value;
      EXPECT_EQ(refusal(config) == "no error", fits) << refusal(config) << value;
    }
  }
  const std::pair<Range Config::*, Range> ranges[] = {{&Config::crop_scale, {1e-6, 1}},
                                                      {&Config::crop_ratio, {1e-3, 1e3}},
                                                      {&Config::erase_scale, {1e-6, 1}},
                                                      {&Config::erase_ratio, {1e-3, 1e3}}};
  for (const auto& [key, bound] : ranges) {
    for (const auto& [range, fits] : {std::pair{bound, true},
                                      {Range{bound.high, bound.high}, true},
                                      {Range{bound.low * 0.99, bound.high}, false},
                                      {Range{bound.low, bound.high * 1.01}, false},
                                      {Range{bound.high, bound.high * 0.99}, false}}) {
      Config config;
      config.*key = range;
      EXPECT_EQ(refusal(config) == "no error", fits) << refusal(config) << range.low << range.high;
    }
  }
}

}  // namespace
}  // namespace whisker
