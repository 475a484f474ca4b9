#include "data/sampler.h"

#include "core/error.h"

#include <algorithm>
#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

std::vector<int64_t> sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(Sampler, SequentialCoversEverything) {
  EXPECT_EQ(sequential_sampler(4)->order(3), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(sequential_sampler(0)->order(0).empty());
}

TEST(Sampler, ShuffleIsAPermutationThatDependsOnSeedAndEpochAlone) {
  const auto a = shuffle_sampler(1000, {.seed = 1});
  const auto b = shuffle_sampler(1000, {.seed = 1});
  std::vector<int64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), 0);
  EXPECT_EQ(sorted(a->order(0)), identity);
  EXPECT_NE(a->order(0), identity);
  EXPECT_EQ(a->order(7), b->order(7));
  EXPECT_NE(a->order(0), a->order(1));
  EXPECT_NE(a->order(0), shuffle_sampler(1000, {.seed = 2})->order(0));
}

TEST(Sampler, ShuffleFavoursNoPlace) {
  // 6,000 shuffles of 5: each value is at each place 1,200 times, standard deviation 31.
  std::map<std::pair<int64_t, int64_t>, int> seen;
  const auto sampler = shuffle_sampler(5, {.seed = 3});
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    const auto order = sampler->order(epoch);
    for (int64_t place = 0; place < 5; ++place) ++seen[{order[place], place}];
  }
  for (const auto& [key, count] : seen) EXPECT_NEAR(count, 1200, 155) << key.first << key.second;
  EXPECT_EQ(seen.size(), 25u);
}

TEST(Sampler, WeightsDecideHowOftenAnIndexIsDrawn) {
  const std::vector<double> weights = {0, 1, 0, 3, 0};
  const auto sampler = weighted_sampler(weights, {.seed = 9, .draws = 4000});
  std::map<int64_t, int> seen;
  for (const int64_t index : sampler->order(2)) ++seen[index];
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen[1], 1000, 140);  // five standard deviations
  EXPECT_NEAR(seen[3], 3000, 140);
  EXPECT_EQ(sampler->order(2), sampler->order(2));
  EXPECT_EQ(weighted_sampler(weights, {.seed = 9})->size(), 5);
}

TEST(Sampler, BalancedGivesEveryClassItsShareAndEveryExampleItsTurn) {
  std::vector<int64_t> labels(90, 0);
  labels.insert(labels.end(), 10, 1);
  const auto sampler = balanced_sampler(labels, {.seed = 4});
  std::map<int64_t, int> seen;
  for (int64_t epoch = 0; epoch < 9; ++epoch) {
    int of_class_one = 0;
    for (const int64_t index : sampler->order(epoch)) {
      of_class_one += labels[static_cast<size_t>(index)] == 1;
      ++seen[index];
    }
    EXPECT_EQ(of_class_one, 50);
  }
  // 9 epochs x 50 draws are 5 rounds of the 90 and 45 of the 10.
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i < 90 ? 5 : 45) << i;
}

TEST(Sampler, RefusesWhatItCannotDo) {
  EXPECT_THROW(shuffle_sampler(-1, {}), Error);
  EXPECT_THROW(weighted_sampler(std::vector<double>{0, 0}, {}), Error);
  EXPECT_THROW(weighted_sampler(std::vector<double>{1, -1}, {}), Error);
  EXPECT_THROW(weighted_sampler(std::vector<double>{1, NAN}, {}), Error);
  EXPECT_THROW(balanced_sampler(std::vector<int64_t>{0, 2, 2}, {}), Error);
  EXPECT_THROW(balanced_sampler(std::vector<int64_t>{0, -1}, {}), Error);
}

}  // namespace
}  // namespace whisker
