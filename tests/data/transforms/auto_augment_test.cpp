// RandAugment and TrivialAugment: pixels of torchvision on Pillow images, stored by
// scripts/make_auto_augment_fixtures.py, and draws that depend on (seed, epoch, index) alone.
#include "data/transforms/auto_augment.h"

#include "core/io/file.h"
#include "core/io/json.h"

#include <map>

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

TEST(AutoAugment, OperationsArePillowsBitByBit) {
  const std::string path = WHISKER_SOURCE_DIR "/tests/data/transforms/auto_augment.json";
  const std::string text = read_file(path, size_t{1} << 20, ErrorKind::data);
  int compared = 0;
  for (const JsonValue& entry : JsonValue::parse(text, {.name = path}).items()) {
    const auto operation = static_cast<PolicyOperation>(entry.at("operation").as_int(0, 13));
    Image image = drawn_image();
    apply_policy({{operation, entry.at("magnitude").as_double()}}, image);
    EXPECT_EQ(fnv1a(image.rgb), entry.at("fnv1a").as_string())
        << "operation " << static_cast<int>(operation) << ", "
        << entry.at("magnitude").as_double();
    ++compared;
  }
  EXPECT_EQ(compared, 184);
}

// Every magnitude that torchvision draws from is drawn, and no other.
TEST(AutoAugment, MagnitudesAreTorchvisions) {
  const std::string path = WHISKER_SOURCE_DIR "/tests/data/transforms/auto_augment.json";
  const std::string text = read_file(path, size_t{1} << 20, ErrorKind::data);
  std::map<int, double> most;  // of bin 9 by operation
  for (const JsonValue& entry : JsonValue::parse(text, {.name = path}).items()) {
    if (entry.at("policy").as_string() != "randaugment" || entry.at("bin").as_int() != 9) continue;
    double& largest = most[static_cast<int>(entry.at("operation").as_int())];
    largest = std::max(largest, entry.at("magnitude").as_double());
  }
  AugmentConfig config;
  config.policy = PolicyKind::randaugment;
  std::map<int, int> seen;
  for (uint64_t index = 0; index < 2000; ++index) {
    const auto steps = sample_policy(config, {.seed = 3, .epoch = 1, .index = index},
                                     {.height = 17, .width = 23});
    ASSERT_EQ(steps.size(), 2U);
    for (const PolicyStep& step : steps) {
      const int operation = static_cast<int>(step.operation);
      ++seen[operation];
      EXPECT_NEAR(std::abs(step.magnitude), most[operation], 1e-5) << operation;
    }
  }
  EXPECT_EQ(seen.size(), 14U);
  for (const auto& [operation, count] : seen) EXPECT_NEAR(count, 4000 / 14.0, 80) << operation;
}

TEST(AutoAugment, DrawsDependOnSeedEpochAndIndexAlone) {
  AugmentConfig config;
  config.policy = PolicyKind::trivialaugment;
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
