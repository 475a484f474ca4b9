// Which rank the others wait for, and what the sum of gradients takes.
#include "train/loop/rank_sums.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(RankTimes, TheSlowestRankWaitsForTheSumAlone) {
  const RankSeconds ranks[] = {{.worked = 6, .waited = 4}, {.worked = 9, .waited = 1}, {6, 4}};
  const RankTimes times = compare_ranks(ranks);
  EXPECT_EQ(times.slowest, 1);
  EXPECT_DOUBLE_EQ(times.excess, 0.5);
  EXPECT_DOUBLE_EQ(times.communication, 0.1);
}

}  // namespace
}  // namespace whisker
