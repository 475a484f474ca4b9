// The speed of a run is that of its steady batches.
#include "train/loop/pace.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

/// Runs `batches` of `seconds` each from `now` on; returns the time after them.
double run(Pace& pace, int batches, double seconds, double now) {
  for (int i = 0; i < batches; ++i) {
    pace.count_batch();
    now += seconds;
    pace.mark(now);
  }
  return now;
}

TEST(Pace, LeavesTheWarmUpOut) {
  Pace pace(3);
  pace.begin_epoch(100);
  double now = run(pace, 3, 50, 100);
  EXPECT_FALSE(pace.batch_seconds());
  now = run(pace, 19, 0.5, now);
  EXPECT_DOUBLE_EQ(pace.batch_seconds().value(), 0.5);
  EXPECT_FALSE(pace.known_after(1));
  now = run(pace, 1, 0.5, now);
  EXPECT_TRUE(pace.known_after(1));
  EXPECT_FALSE(pace.known_after(11));
  pace.restart();
  EXPECT_FALSE(pace.batch_seconds());
  EXPECT_FALSE(pace.known_after(0));
  pace.begin_epoch(now);
  now = run(pace, 3, 50, now);
  run(pace, 1, 2, now);
  EXPECT_DOUBLE_EQ(pace.batch_seconds().value(), 2);
}

// A validation between them takes no batch's time.
TEST(Pace, FollowsTheEpochInProgressFromItsTenthBatchOn) {
  Pace pace(0);
  pace.begin_epoch(0);
  double now = run(pace, 30, 1, 0);
  pace.begin_epoch(now + 1000);
  now = run(pace, 9, 3, now + 1000);
  EXPECT_DOUBLE_EQ(pace.batch_seconds().value(), 1);
  run(pace, 1, 3, now);
  EXPECT_DOUBLE_EQ(pace.batch_seconds().value(), 3);
}

// An epoch of five batches is too short to tell a change from noise.
TEST(Pace, AveragesShortEpochs) {
  Pace pace(0);
  double now = 0;
  for (int epoch = 0; epoch < 40; ++epoch) {
    pace.begin_epoch(now);
    now = run(pace, 5, epoch % 2 == 0 ? 1 : 3, now) + 100;
  }
  pace.begin_epoch(now);
  EXPECT_NEAR(pace.batch_seconds().value(), 2, 0.1);
}

// A GPU's batches are finished when its results are read, every few of them.
TEST(Pace, CountsBatchesUpToTheLastMark) {
  Pace pace(2);
  pace.begin_epoch(0);
  for (int i = 0; i < 4; ++i) pace.count_batch();
  pace.mark(8);
  EXPECT_FALSE(pace.batch_seconds());
  for (int i = 0; i < 4; ++i) pace.count_batch();
  EXPECT_FALSE(pace.batch_seconds());
  pace.mark(10);
  EXPECT_DOUBLE_EQ(pace.batch_seconds().value(), 0.5);
}

TEST(Pace, AveragesWhatLiesBetweenEpochsButForTheFirstTime) {
  Pace pace(0);
  EXPECT_FALSE(pace.between_epochs());
  pace.add_between_epochs(70);
  EXPECT_EQ(pace.between_epochs(), 70);
  pace.add_between_epochs(3);
  EXPECT_EQ(pace.between_epochs(), 3);
  pace.add_between_epochs(1);
  EXPECT_EQ(pace.between_epochs(), 2);
}

}  // namespace
}  // namespace whisker
