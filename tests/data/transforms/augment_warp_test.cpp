// Warps, measured in pixels: distributed as the configuration says, made of Keras' matrices, and
// with Pillow's pixels.
#include "tests/data/transforms/augment_measure.h"
#include "tests/support/distribution.h"

#include <algorithm>
#include <fstream>
#include <numbers>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr double degree = std::numbers::pi / 180;

constexpr ImageSize warped_size{48, 64};

/// From where the pixels at the center of a warped ramps(64, 48, 64, 2) come.
WarpParameters measured_warp(const AugmentConfig& config, uint64_t index) {
  const Result result = drawn(ramps(64, 48, 64, 2), warped_size, config, index);
  const auto from = [&](int y, int x) {  // from the center, (x, y)
    return std::array{(result.at(y, x, 0) - 64) / 2 + 0.5 - 32,
                      (result.at(y, x, 1) - 64) / 2 + 0.5 - 24};
  };
  const auto here = from(24, 32), right = from(24, 36), below = from(28, 32);
  std::array<double, 6> m{};
  for (size_t i = 0; i < 2; ++i) {
    m[3 * i] = (right[i] - here[i]) / 4;
    m[3 * i + 1] = (below[i] - here[i]) / 4;
    m[3 * i + 2] = here[i] - (m[3 * i] + m[3 * i + 1]) / 2;
  }
  return parts_of(m.data());
}

TEST(AugmentWarp, WarpsAreUniformInTheirOwnRanges) {
  const AugmentConfig config{
      .rotation = 40, .shear = 25, .zoom = 0.3, .shift_horizontal = 0.1, .shift_vertical = 0.2};
  Draws rotation, shear, zoom_x, zoom_y, shift_x, shift_y;
  for (uint64_t index = 0; index < 4000; ++index) {
    const WarpParameters warp = measured_warp(config, index);
    rotation.push_back(warp.rotation);
    shear.push_back(warp.shear);
    zoom_x.push_back(warp.zoom_x);
    zoom_y.push_back(warp.zoom_y);
    shift_x.push_back(warp.shift_x);
    shift_y.push_back(warp.shift_y);
  }
  constexpr double slack = 1e-4;  // f32 values up to 190
  expect_uniform(rotation, -40 * degree, 40 * degree, slack);
  expect_uniform(shear, -25 * degree, 25 * degree, slack);
  expect_uniform(zoom_x, 0.7, 1.3, slack);
  expect_uniform(zoom_y, 0.7, 1.3, slack);
  expect_uniform(shift_x, -6.4, 6.4, slack);
  expect_uniform(shift_y, -9.6, 9.6, slack);
}

TEST(AugmentWarp, APartOfAWarpAloneLeavesTheOthersAlone) {
  const struct {
    AugmentConfig config;
    std::vector<double WarpParameters::*> drawn;
  } parts[] = {
      {{.rotation = 0.9}, {&WarpParameters::rotation}},
      {{.shear = 0.9}, {&WarpParameters::shear}},
      {{.zoom = 0.3}, {&WarpParameters::zoom_x, &WarpParameters::zoom_y}},
      {{.shift_horizontal = 0.1}, {&WarpParameters::shift_x}},
      {{.shift_vertical = 0.2}, {&WarpParameters::shift_y}},
  };
  for (const auto& [config, drawn] : parts) {
    for (uint64_t index = 0; index < 20; ++index) {
      WarpParameters warp = measured_warp(config, index);
      const WarpParameters neutral;
      for (const auto part : drawn) {
        EXPECT_GT(std::abs(warp.*part - neutral.*part), 1e-4);
        warp.*part = neutral.*part;
      }
      for (const auto part :
           {&WarpParameters::rotation, &WarpParameters::shear, &WarpParameters::zoom_x,
            &WarpParameters::zoom_y, &WarpParameters::shift_x, &WarpParameters::shift_y}) {
        EXPECT_NEAR(warp.*part, neutral.*part, 1e-4);
      }
    }
  }
}

// tests/data/transforms/warp_reference.tsv, by scripts/make_warp_reference.py.
TEST(AugmentWarp, WarpsAreKerasMatricesAndPillowsPixels) {
  std::ifstream table(WHISKER_SOURCE_DIR "/tests/data/transforms/warp_reference.tsv");
  constexpr ImageSize size{10, 13};
  const Image source = painted(size.width, size.height, [&](int x, int y, int c) {
    const bool edge = x == 0 || y == 0 || x == size.width - 1 || y == size.height - 1;
    return edge ? 40 : (x * 37 + y * 61 + c * 90 + x * y * 5) % 256;
  });
  std::string line, pixels;
  std::getline(table, line);
  int rows = 0;
  for (; std::getline(table, line); ++rows) {
    SCOPED_TRACE(line.substr(0, 40));
    std::istringstream cells(line);
    WarpParameters warp;
    cells >> warp.rotation >> warp.shear >> warp.zoom_x >> warp.zoom_y >> warp.shift_x >>
        warp.shift_y >> pixels;
    warp.rotation *= degree;
    warp.shear *= degree;
    ImageRecord record = plain_augmentation(without_normalising(size), size.height, size.width);
    record.warps = true;
    std::ranges::copy(warp_matrix(warp), record.warp);
    for (const FillMode mode : {FillMode::constant, FillMode::nearest}) {
      record.fill_mode = mode;
      record.fill_value = 40;
      const Result result = augmented(source, size, record);
      ASSERT_EQ(pixels.size(), 2 * result.values.size());
      for (size_t i = 0; i < result.values.size(); ++i) {
        const int pillow = std::stoi(pixels.substr(2 * i, 2), nullptr, 16);
        EXPECT_NEAR(result.values[i], pillow, 0.501) << "value " << i;
      }
    }
  }
  EXPECT_EQ(rows, 11);
}

}  // namespace
}  // namespace whisker::test
