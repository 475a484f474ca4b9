// Drawn augmentations stay in their ranges, fill them, and repeat.
#include "data/augment_sampler.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(AugmentSampler, CropsStayInTheirRangesAndFillThem) {
  const AugmentConfig config{.random_resized_crop = true, .flip_horizontal = 0.25};
  const Preprocess preprocess{.size = {32, 32}};
  double least = 1, most = 0, flips = 0;
  constexpr int draws = 4000;
  for (uint64_t index = 0; index < draws; ++index) {
    const AugmentRecord record = sample_augmentation(config, preprocess, {9, 0, index}, 300, 400);
    const Rect& crop = record.crop;
    ASSERT_TRUE(crop.left >= 0 && crop.top >= 0 && crop.left + crop.width <= 400 &&
                crop.top + crop.height <= 300);
    const double share = crop.width * crop.height / 120000.0;
    const double ratio = double(crop.width) / crop.height;
    ASSERT_GE(share, 0.078);
    ASSERT_LE(ratio, 1.36);
    ASSERT_GE(ratio, 0.74);
    least = std::min(least, share);
    most = std::max(most, share);
    flips += record.flip_horizontal;
  }
  EXPECT_LT(least, 0.09);
  EXPECT_GT(most, 0.95);
  EXPECT_NEAR(flips / draws, 0.25, 0.03);  // 4 standard errors
}

TEST(AugmentSampler, ThinPicturesFallBackToTheLargestCenteredCrop) {
  const AugmentConfig config{.random_resized_crop = true, .crop_scale = {0.9, 1}};
  const AugmentRecord record = sample_augmentation(config, {.size = {32, 32}}, {1, 0, 0}, 10, 1000);
  EXPECT_EQ(record.crop, (Rect{493, 0, 13, 10}));
  const AugmentRecord tall = sample_augmentation(config, {.size = {32, 32}}, {1, 0, 0}, 1000, 9);
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
    const AugmentRecord record =
        sample_augmentation(config, {.size = {8, 8}}, {1, 0, index}, 10, 10);
    ASSERT_EQ(record.jitter_steps, 4);
    std::array<JitterKind, 4> order{};
    for (size_t i = 0; i < 4; ++i) {
      order[i] = record.jitter[i].kind;
      const double spread = order[i] == JitterKind::hue ? 0.1 : 0.2;
      const double center = order[i] == JitterKind::hue ? 0 : 1;
      ASSERT_LE(std::abs(record.jitter[i].amount - center), spread);
    }
    ++orders[order];
  }
  EXPECT_EQ(orders.size(), 24u);
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, 100, 45);
}

TEST(AugmentSampler, MixupFollowsBetaAndCutmixItsBox) {
  const PictureSize extents{32, 48};
  // Beta(a, a) has mean 1/2 and variance 1 / (4 (2 a + 1)).
  for (const double alpha : {0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    constexpr int draws = 4000;
    for (uint64_t batch = 0; batch < draws; ++batch) {
      const BatchMix mix = sample_mix({.mixup = alpha}, {1, 0, batch}, extents);
      ASSERT_EQ(mix.kind, BatchMix::Kind::mixup);
      sum += mix.lambda;
      squares += (mix.lambda - 0.5) * (mix.lambda - 0.5);
    }
    EXPECT_NEAR(sum / draws, 0.5, 0.03);
    EXPECT_NEAR(squares / draws, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
  }
  int cuts = 0;
  for (uint64_t batch = 0; batch < 400; ++batch) {
    const BatchMix mix = sample_mix({.mixup = 1, .cutmix = 1}, {1, 0, batch}, extents);
    if (mix.kind != BatchMix::Kind::cutmix) continue;
    ++cuts;
    ASSERT_TRUE(mix.box.left >= 0 && mix.box.top >= 0 && mix.box.left + mix.box.width <= 48 &&
                mix.box.top + mix.box.height <= 32);
    EXPECT_DOUBLE_EQ(mix.lambda, 1 - mix.box.width * mix.box.height / (32.0 * 48));
  }
  EXPECT_NEAR(cuts, 200, 40);
  EXPECT_EQ(sample_mix({}, {1, 0, 0}, extents).kind, BatchMix::Kind::none);
}

TEST(AugmentSampler, BadRangesAreNamed) {
  const auto reason = [](const AugmentConfig& config) {
    try {
      config.check();
      return std::string("accepted");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(reason({.crop_scale = {0.5, 0.2}}),
            "augment.crop_scale: expected [low, high] within [1e-06, 1], got [0.5, 0.2]");
  EXPECT_EQ(reason({.zoom = 1}), "augment.zoom: expected a number from 0 to 0.99, got 1");
  EXPECT_EQ(reason({.hue = std::nan("")}), "augment.hue: expected a number from 0 to 0.5, got nan");
}

}  // namespace
}  // namespace whisker
