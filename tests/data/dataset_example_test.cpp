// A dataset of one's own, as a user of the library writes it: two functions.
#include "data/loader.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker {
namespace {

/// Points of two interleaved spirals; the label says which arm.
class Spirals final : public Dataset {
 public:
  explicit Spirals(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }

  Sample get(int64_t index) const override {
    const double turn = 6.0 * static_cast<double>(index / 2) / static_cast<double>(size_);
    const double angle = turn + (index % 2 == 0 ? 0.0 : M_PI);
    return {.image = from_vector({turn * std::cos(angle), turn * std::sin(angle)}, {2}),
            .label = index % 2};
  }

 private:
  int64_t size_;
};

TEST(DatasetExample, SpiralsComeInBatches) {
  Loader loader(std::make_shared<Spirals>(100), shuffle_sampler(100, {.seed = 1}),
                {.batch_size = 16, .workers = 2});
  int64_t rows = 0;
  int64_t second_arm = 0;
  loader.start_epoch(0);
  while (const std::optional<Batch> batch = loader.next()) {
    EXPECT_EQ(batch->images.shape(), Shape({batch->size(), 2}));
    for (const int64_t label : batch->labels.data<const int64_t>()) second_arm += label;
    rows += batch->size();
  }
  EXPECT_EQ(rows, 100);
  EXPECT_EQ(second_arm, 50);
}

}  // namespace
}  // namespace whisker
