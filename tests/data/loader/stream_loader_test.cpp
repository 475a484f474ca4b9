#include "data/loader/stream_loader.h"

#include "core/error.h"
#include "tests/support/failing_new.h"

#include <gtest/gtest.h>

namespace whisker {
namespace {

/// Counts from epoch * 100 upwards.
class Counter final : public IterableDataset {
 public:
  explicit Counter(int64_t size, int64_t throws = -1) : size_(size), throws_(throws) {}
  void start(StreamStart where) override {
    where_ = where;
    position_ = where.skip + where.rank;
  }
  std::optional<Sample> next() override {
    if (position_ >= size_) return std::nullopt;
    if (position_ == throws_) fail(ErrorKind::data, "line {}: a fault", position_);
    const auto value = static_cast<double>(where_.epoch * 100 + position_);
    const Sample sample{.input = from_vector({value}, {1}), .label = position_};
    position_ += where_.world;
    return sample;
  }

 private:
  int64_t size_;
  int64_t throws_;
  StreamStart where_;
  int64_t position_ = 0;
};

std::vector<int64_t> labels_of(StreamLoader& loader) {
  std::vector<int64_t> labels;
  while (const auto batch = loader.next()) {
    for (const int64_t label : batch->labels.data<const int64_t>()) labels.push_back(label);
    EXPECT_EQ(batch->indices.back(), labels.back());
  }
  return labels;
}

TEST(StreamLoader, BatchesAStreamInOrder) {
  for (const int prefetch : {0, 1, 3}) {
    StreamLoader loader(std::make_shared<Counter>(10), {.batch_size = 4, .prefetch = prefetch});
    EXPECT_FALSE(loader.next());
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.start_epoch(epoch);
      const Batch first = *loader.next();
      EXPECT_EQ(first.inputs.to_vector()[3], static_cast<double>(epoch * 100 + 3));
      EXPECT_EQ(labels_of(loader), (std::vector<int64_t>{4, 5, 6, 7, 8, 9}));
    }
    loader.start_epoch(0, 2);
    EXPECT_EQ(labels_of(loader), (std::vector<int64_t>{8, 9}));
    EXPECT_EQ(loader.stats().samples, 22);
  }
}

TEST(StreamLoader, CarriesMemoryThatRanOutToTheCaller) {
  for (const int prefetch : {0, 1, 3}) {
    const auto [failures, reported] = test::fail_each_allocation_of_an_epoch([&] {
      return std::make_unique<StreamLoader>(
          std::make_shared<Counter>(10),
          StreamLoaderOptions{.batch_size = 4, .prefetch = prefetch});
    });
    EXPECT_GE(failures, 5);
    EXPECT_EQ(reported, failures) << prefetch << " read ahead";
  }
}

TEST(StreamLoader, CollateIsToldEpochAndBatch) {
  for (const int prefetch : {0, 2}) {
    std::vector<std::vector<int64_t>> seen;  // epoch, number, then the indices
    StreamLoader loader(std::make_shared<Counter>(11),
                        {.batch_size = 2,
                         .prefetch = prefetch,
                         .part = {.rank = 1, .world = 2},
                         .collate = [&](std::span<const Sample> samples, const BatchKey& key) {
                           seen.push_back({key.epoch, key.number});
                           seen.back().insert(seen.back().end(), key.indices.begin(),
                                              key.indices.end());
                           return stack_samples(samples);
                         }});
    loader.start_epoch(4, 1);
    while (loader.next()) continue;
    EXPECT_EQ(seen, (std::vector<std::vector<int64_t>>{{4, 1, 5, 7}, {4, 2, 9}}));
  }
}

TEST(StreamLoader, SharesAStreamBetweenRanks) {
  StreamLoader loader(std::make_shared<Counter>(11),
                      {.batch_size = 2, .drop_last = true, .part = {.rank = 1, .world = 2}});
  loader.start_epoch(0, 1);
  EXPECT_EQ(labels_of(loader), (std::vector<int64_t>{5, 7}));
}

TEST(StreamLoader, CarriesErrorsAndEndsTheEpoch) {
  for (const int prefetch : {0, 2}) {
    StreamLoader loader(std::make_shared<Counter>(10, 5), {.batch_size = 2, .prefetch = prefetch});
    loader.start_epoch(0);
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    EXPECT_THROW(loader.next(), Error);
    EXPECT_FALSE(loader.next());
  }
}

TEST(StreamLoader, ShutsDownAtAnyMoment) {
  for (int i = 0; i < 50; ++i) {
    StreamLoader loader(std::make_shared<Counter>(1000), {.batch_size = 2, .prefetch = 2});
    loader.start_epoch(0);
    for (int n = 0; n < i % 5; ++n) loader.next();
    if (i % 2 == 0) loader.start_epoch(1);
  }
}

}  // namespace
}  // namespace whisker
