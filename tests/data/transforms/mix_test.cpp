#include "data/transforms/mix.h"

#include "core/error.h"

#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

struct Rows {
  std::vector<float> images;  // (3, 4, 5, 2), all of row i are i
  std::vector<int64_t> labels = {0, 1, 2};
  std::vector<float> soft = std::vector<float>(9, -1.0f);
  Rows() {
    for (int i = 0; i < 3; ++i) images.insert(images.end(), 40, static_cast<float>(i));
  }
  void mix(const BatchMix& how) {
    mix_labels(how, labels, soft);
    mix_images(how, {.images = images, .rows = 3, .height = 4, .width = 5});
  }
};

TEST(Mix, MixupBlendsEachRowWithTheOneBefore) {
  Rows rows;
  rows.mix({.kind = BatchMix::Kind::mixup, .lambda = 0.75, .box = {}});
  for (int k = 0; k < 40; ++k) {
    EXPECT_FLOAT_EQ(rows.images[k], 0.5f);        // 0.75 * 0 + 0.25 * 2
    EXPECT_FLOAT_EQ(rows.images[40 + k], 0.75f);  // 0.75 * 1 + 0.25 * 0
    EXPECT_FLOAT_EQ(rows.images[80 + k], 1.75f);  // 0.75 * 2 + 0.25 * 1
  }
  EXPECT_EQ(rows.soft, (std::vector<float>{0.75f, 0, 0.25f, 0.25f, 0.75f, 0, 0, 0.25f, 0.75f}));
}

TEST(Mix, CutmixPastesABox) {
  Rows rows;
  const Rect box{.left = 2, .top = 1, .width = 2, .height = 2};
  rows.mix({.kind = BatchMix::Kind::cutmix, .lambda = 0.8, .box = box});
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 5; ++x) {
      const bool inside = y >= 1 && y < 3 && x >= 2 && x < 4;
      for (int c = 0; c < 2; ++c) {
        const int k = (y * 5 + x) * 2 + c;
        EXPECT_EQ(rows.images[k], inside ? 2.0f : 0.0f);
        EXPECT_EQ(rows.images[40 + k], inside ? 0.0f : 1.0f);
        EXPECT_EQ(rows.images[80 + k], inside ? 1.0f : 2.0f);
      }
    }
  }
}

TEST(Mix, RefusesLabelsOutsideTheTable) {
  Rows rows;
  rows.labels[1] = 3;
  EXPECT_THROW(rows.mix({.kind = BatchMix::Kind::mixup, .lambda = 0.5, .box = {}}), Error);
}

}  // namespace
}  // namespace whisker
