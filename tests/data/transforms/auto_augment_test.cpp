// RandAugment and TrivialAugment: pixels of torchvision on Pillow images, stored by
// scripts/make_auto_augment_fixtures.py, and draws that depend on (seed, epoch, index) alone.
#include "data/transforms/auto_augment.h"

#include "core/io/file.h"
#include "core/io/json.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

Image drawn_image() {
  Image image;
  image.reshape(17, 23);
  for (int y = 0; y < 17; ++y) {
    for (int x = 0; x < 23; ++x) {
      uint8_t* const pixel = image.row(y) + ptrdiff_t{3} * x;
      pixel[0] = static_cast<uint8_t>(40 + (x * 9 + y * 5) % 190);
      pixel[1] = static_cast<uint8_t>(20 + (x * y * 3) % 200);
      pixel[2] = static_cast<uint8_t>(60 + (x * x + 7 * y) % 150);
    }
  }
  return image;
}

std::string fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t value = 0xCBF29CE484222325;
  for (const uint8_t byte : bytes) value = (value ^ byte) * 0x100000001B3;
  return fmt::format("{:016x}", value);
}

struct Fixture {
  std::string policy;
  int bin = 0;
  PolicyStep step;
  std::string fnv1a;
};

std::vector<Fixture> fixtures() {
  const std::string path = WHISKER_SOURCE_DIR "/tests/data/transforms/auto_augment.json";
  const std::string text = read_file(path, size_t{1} << 20, ErrorKind::data);
  std::vector<Fixture> list;
  const JsonValue json = JsonValue::parse(text, {.name = path});
  for (const JsonValue& entry : json.items()) {
    list.push_back({.policy = entry.at("policy").as_string(),
                    .bin = static_cast<int>(entry.at("bin").as_int(0, 30)),
                    .step = {static_cast<PolicyOperation>(entry.at("operation").as_int(0, 13)),
                             entry.at("magnitude").as_double()},
                    .fnv1a = entry.at("fnv1a").as_string()});
  }
  return list;
}

TEST(AutoAugment, OperationsAreTorchvisionsToTheBit) {
  int compared = 0;
  for (const Fixture& fixture : fixtures()) {
    Image image = drawn_image();
    apply_policy({fixture.step}, image);
    EXPECT_EQ(fnv1a(image.rgb), fixture.fnv1a)
        << "operation " << static_cast<int>(fixture.step.operation) << ", "
        << fixture.step.magnitude;
    ++compared;
  }
  EXPECT_EQ(compared, 86);
}

// Of each operation the magnitudes of torchvision's bins 9 and 30 are drawn, with either sign.
void expect_magnitudes(const std::string& policy, int bin, const AugmentConfig& config) {
  std::map<PolicyOperation, std::set<int64_t>> drawn;  // magnitudes in 1e-4
  std::map<PolicyOperation, int> seen;
  const auto rounded = [](double v) { return std::llround(v * 1e4); };
  for (uint64_t index = 0; index < 5000; ++index) {
    for (const PolicyStep& step : sample_policy(config, {.seed = 3, .epoch = 1, .index = index},
                                                {.height = 17, .width = 23})) {
      drawn[step.operation].insert(rounded(step.magnitude));
      ++seen[step.operation];
    }
  }
  size_t expected = 0;
  for (const Fixture& fixture : fixtures()) {
    if (fixture.policy != policy || (fixture.bin != bin && fixture.bin != 0)) continue;
    EXPECT_TRUE(drawn[fixture.step.operation].contains(rounded(fixture.step.magnitude)))
        << policy << ": operation " << static_cast<int>(fixture.step.operation) << ", "
        << fixture.step.magnitude;
    ++expected;
  }
  EXPECT_EQ(expected, 23U);  // nine with two signs, two with one, three without a magnitude
  for (const auto& [operation, count] : seen) {
    EXPECT_NEAR(count, 5000 / 14.0 * (config.trivial_augment ? 1 : 2), 100);
  }
  size_t values = 0;
  for (const auto& [operation, magnitudes] : drawn) values += magnitudes.size();
  if (!config.trivial_augment) {
    EXPECT_EQ(values, 23U);
  }
}

TEST(AutoAugment, MagnitudesAreTorchvisions) {
  for (const int bin : {9, 30}) {
    AugmentConfig config;
    config.rand_augment_ops = 2;
    config.rand_augment_magnitude = bin;
    expect_magnitudes("rand_augment", bin, config);
    config = {};
    config.trivial_augment = true;
    expect_magnitudes("trivial_augment", bin, config);
  }
}

// Whole thresholds stay whole: a pixel of that value is inverted.
TEST(AutoAugment, SolarizeHasTorchvisionsThresholds) {
  for (int bin = 0; bin <= 30; ++bin) {
    AugmentConfig config;
    config.rand_augment_ops = 1;
    config.rand_augment_magnitude = bin;
    for (uint64_t index = 0;; ++index) {
      const PolicyStep step = sample_policy(config, {.index = index}, {.height = 8, .width = 8})[0];
      if (step.operation != PolicyOperation::solarize) continue;
      EXPECT_EQ(std::ceil(step.magnitude), (255 * (30 - bin) + 29) / 30) << bin;
      break;
    }
  }
}

TEST(AutoAugment, DrawsDependOnSeedEpochAndIndexAlone) {
  AugmentConfig config;
  config.trivial_augment = true;
  const ImageSize size{.height = 32, .width = 32};
  const auto draw = [&](DrawKey key) {
    const auto steps = sample_policy(config, key, size);
    EXPECT_EQ(steps.size(), 1U);
    return std::pair{steps[0].operation, steps[0].magnitude};
  };
  int same = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(draw({.seed = 1, .epoch = 2, .index = i}), draw({.seed = 1, .epoch = 2, .index = i}));
    same += draw({.seed = 1, .epoch = 2, .index = i}) == draw({.seed = 1, .epoch = 3, .index = i});
  }
  EXPECT_LT(same, 50);
}

}  // namespace
}  // namespace whisker
