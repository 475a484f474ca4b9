#include "data/loader/loader.h"

#include "core/error.h"
#include "core/io/hash.h"
#include "core/tensor/philox.h"
#include "tests/support/error_of.h"
#include "tests/support/failing_new.h"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

/// Examples (2, 3, 1) whose values say index and epoch; some are bad, some throw something else.
class Numbers final : public Dataset {
 public:
  struct Options {
    int64_t size = 100;
    std::set<int64_t> bad = {};
    int64_t throws = -1;
    bool slow = false;
  };
  explicit Numbers(Options options) : options_(std::move(options)) {}
  int64_t size() const override { return options_.size; }
  Shape sample_shape() const override { return {2, 3, 1}; }
  Sample get(int64_t index) const override { return sample({.index = index}); }
  Sample sample(SampleKey key) const override {
    Sample one{.input = empty(sample_shape())};
    one.label = write(key, one.input.data<float>());
    return one;
  }
  int64_t write(SampleKey key, std::span<float> image) const override {
    ++reads_;
    if (options_.slow) {
      // Uneven, so that rows and batches finish out of order.
      const auto pause = philox_block(1, 2, static_cast<uint64_t>(key.index))[0] % 400;
      std::this_thread::sleep_for(std::chrono::microseconds(pause));
    }
    if (options_.bad.contains(key.index)) {
      fail(ErrorKind::data, "image {}: cut off", key.index);
    }
    if (key.index == options_.throws) fail(ErrorKind::usage, "image {}: a fault", key.index);
    std::fill(image.begin(), image.end(), static_cast<float>(key.index * 1000 + key.epoch));
    return key.index % 7;
  }
  int64_t reads() const { return reads_; }

 private:
  Options options_;
  mutable std::atomic<int64_t> reads_ = 0;
};

std::shared_ptr<const Sampler> shuffled(int64_t size) {
  return shuffle_sampler(size, {.seed = 1});
}

/// Hash of everything in the rest of the epoch.
std::string rest_of_epoch(BatchSource& loader) {
  Hash64 hash;
  const auto add = [&](const Tensor& x) {
    if (x) hash.update(std::string_view(static_cast<const char*>(x.raw()), size_t(x.bytes())));
  };
  while (const auto batch = loader.next()) {
    add(batch->inputs);
    add(batch->labels);
    add(batch->soft_labels);
    for (const int64_t index : batch->indices) hash.update(std::to_string(index) + ",");
  }
  return hash.hex();
}

TEST(Loader, DeliversEveryExampleInTheSamplersOrder) {
  for (const int workers : {0, 1, 3}) {
    const auto sampler = shuffled(100);
    Loader loader(std::make_shared<Numbers>(Numbers::Options{.slow = true}), sampler,
                  {.batch_size = 8, .workers = workers});
    EXPECT_EQ(loader.batches(), 13);
    EXPECT_FALSE(loader.next());  // no epoch begun
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> seen;
      loader.start_epoch(epoch);
      while (const auto batch = loader.next()) {
        EXPECT_EQ(batch->size(), seen.size() < 96 ? 8 : 4);
        EXPECT_EQ(batch->inputs.shape(), Shape({batch->size(), 2, 3, 1}));
        EXPECT_EQ(batch->labels.dtype(), DType::i64);
        EXPECT_FALSE(batch->soft_labels);
        for (int64_t row = 0; row < batch->size(); ++row) {
          const int64_t index = batch->indices[static_cast<size_t>(row)];
          seen.push_back(index);
          EXPECT_EQ(batch->labels.data<const int64_t>()[row], index % 7);
          EXPECT_EQ(batch->inputs.data<const float>()[row * 6 + 5],
                    static_cast<float>(index * 1000 + epoch));
        }
      }
      EXPECT_EQ(seen, sampler->order(epoch));
      EXPECT_FALSE(loader.next());
    }
    EXPECT_EQ(loader.stats().samples, 200);
    EXPECT_EQ(loader.stats().batches, 26);
    EXPECT_GT(loader.stats().work_seconds, 0);
    EXPECT_GT(loader.stats().wait_seconds, 0);
  }
}

// Note [Weighted ranks]: the parts of every batch make up the batch of one rank.
TEST(Loader, RanksReadTheirRowsOfEachBatch) {
  const auto sampler = shuffled(50);
  for (const int world : {2, 3, 4}) {
    for (const bool drop_last : {false, true}) {
      Loader whole(std::make_shared<Numbers>(Numbers::Options{}), sampler,
                   {.batch_size = 8, .workers = 1, .drop_last = drop_last});
      std::vector<std::unique_ptr<Loader>> ranks;
      for (int rank = 0; rank < world; ++rank) {
        ranks.push_back(
            std::make_unique<Loader>(std::make_shared<Numbers>(Numbers::Options{}), sampler,
                                     LoaderOptions{.batch_size = 8,
                                                   .workers = rank % 2,
                                                   .drop_last = drop_last,
                                                   .part = {.rank = rank, .world = world}}));
        EXPECT_EQ(ranks.back()->batches(), whole.batches());
      }
      for (const int64_t first : {0, 3, 6}) {
        whole.start_epoch(1, first);
        for (const auto& one : ranks) one->start_epoch(1, first);
        while (const auto batch = whole.next()) {
          std::vector<int64_t> together(static_cast<size_t>(batch->size()), -1);
          for (int rank = 0; rank < world; ++rank) {
            const auto part = ranks[static_cast<size_t>(rank)]->next();
            ASSERT_TRUE(part);
            EXPECT_EQ(part->all_rows, batch->size());
            for (int64_t i = 0; i < part->size(); ++i) {
              together[static_cast<size_t>(rank + i * world)] =
                  part->indices[static_cast<size_t>(i)];
            }
          }
          EXPECT_EQ(together, batch->indices);
        }
        for (const auto& one : ranks) EXPECT_FALSE(one->next());
      }
    }
  }
}

TEST(Loader, DropLastLeavesOutAPartialBatch) {
  Loader loader(std::make_shared<Numbers>(Numbers::Options{}), shuffled(100),
                {.batch_size = 8, .workers = 1, .drop_last = true});
  EXPECT_EQ(loader.batches(), 12);
  loader.start_epoch(0);
  int64_t rows = 0;
  while (const auto batch = loader.next()) rows += batch->size();
  EXPECT_EQ(rows, 96);
}

TEST(Loader, ContinuesAtAnyBatch) {
  const auto data = std::make_shared<Numbers>(Numbers::Options{});
  Loader whole(data, shuffled(100), {.batch_size = 8, .workers = 2});
  for (int64_t first = 0; first <= 13; ++first) {
    whole.start_epoch(3);
    for (int64_t i = 0; i < first; ++i) ASSERT_TRUE(whole.next());
    Loader resumed(data, shuffled(100), {.batch_size = 8, .workers = 1});
    resumed.start_epoch(3, first);
    EXPECT_EQ(rest_of_epoch(resumed), rest_of_epoch(whole)) << first;
  }
  EXPECT_THROW(whole.start_epoch(3, 14), Error);
}

TEST(Loader, ReusesItsBuffersAndLeavesHeldBatchesAlone) {
  Loader loader(std::make_shared<Numbers>(Numbers::Options{.size = 400}), shuffled(400),
                {.batch_size = 8, .workers = 2, .prefetch = 2});
  loader.start_epoch(0);
  std::set<const void*> places;
  const Batch held = *loader.next();
  const std::vector<double> before = held.inputs.to_vector();
  while (const auto batch = loader.next()) places.insert(batch->inputs.raw());
  EXPECT_LE(places.size(), 4u);  // two ahead, one in use, one being given back
  EXPECT_FALSE(places.contains(held.inputs.raw()));
  EXPECT_EQ(held.inputs.to_vector(), before);
}

TEST(Loader, BatchesOutliveTheLoader) {
  Batch batch;
  {
    Loader loader(std::make_shared<Numbers>(Numbers::Options{}), sequential_sampler(100),
                  {.batch_size = 8, .workers = 2});
    loader.start_epoch(0);
    batch = *loader.next();
  }
  EXPECT_EQ(batch.inputs.data<const float>()[6], 1000.0f);
}

TEST(Loader, CollateMakesTheTensors) {
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(Numbers::Options{.bad = {3}}), sequential_sampler(20),
                  {.batch_size = 8,
                   .workers = workers,
                   .on_bad = OnBad::skip,
                   .collate = [](std::span<const Sample> samples, const BatchKey&) {
                     Batch batch = stack_samples(samples);
                     batch.inputs = batch.inputs.reshape({-1, 6});
                     return batch;
                   }});
    loader.start_epoch(0);
    const Batch batch = *loader.next();
    EXPECT_EQ(batch.inputs.shape(), Shape({7, 6}));
    EXPECT_EQ(batch.indices, (std::vector<int64_t>{0, 1, 2, 4, 5, 6, 7}));
    EXPECT_EQ(batch.inputs.data<const float>()[3 * 6], 4000.0f);
  }
}

// The examples too are those of the epoch, not of epoch 0.
TEST(Loader, CollateIsToldEpochAndBatch) {
  for (const int workers : {0, 2}) {
    Loader loader(std::make_shared<Numbers>(Numbers::Options{}), sequential_sampler(20),
                  {.batch_size = 8,
                   .workers = workers,
                   .collate = [](std::span<const Sample> samples, const BatchKey& key) {
                     Batch batch = stack_samples(samples);
                     batch.soft_labels = from_vector(
                         {static_cast<double>(key.epoch), static_cast<double>(key.number),
                          static_cast<double>(key.indices[0])},
                         {3});
                     return batch;
                   }});
    loader.start_epoch(5, 1);
    for (const int64_t number : {1, 2}) {
      const Batch batch = *loader.next();
      const double index = static_cast<double>(number) * 8;
      EXPECT_EQ(batch.soft_labels.to_vector(),
                (std::vector<double>{5, static_cast<double>(number), index}));
      EXPECT_EQ(batch.inputs.to_vector().front(), index * 1000 + 5);
    }
  }
}

// On the level of the loader: 1,000 examples with 0, 1, 5 or 50 bad ones.
TEST(Loader, BadExamplesAreReplacedTheSameOnAnyNumberOfWorkers) {
  std::set<std::string> of_counts;
  for (const int bad_count : {0, 1, 5, 50}) {
    Numbers::Options options{.size = 1000};
    PhiloxStream random(42, static_cast<uint64_t>(bad_count));
    while (std::ssize(options.bad) < bad_count) options.bad.insert(random.below(1000));
    std::set<std::string> hashes;
    for (const int workers : {0, 1, 2, 4, 8}) {
      Loader loader(std::make_shared<Numbers>(options), shuffled(1000),
                    {.batch_size = 32, .workers = workers, .max_bad = 0.05});
      loader.start_epoch(0);
      hashes.insert(rest_of_epoch(loader));
      std::set<int64_t> reported;
      for (const BadSample& bad : loader.bad_samples()) {
        reported.insert(bad.index);
        EXPECT_THAT(bad.reason, HasSubstr(fmt::format("image {}: cut off", bad.index)));
        int64_t next = bad.index;
        while (options.bad.contains(next)) next = (next + 1) % 1000;
        EXPECT_EQ(bad.replacement, next);
      }
      EXPECT_EQ(reported, options.bad);
      EXPECT_EQ(loader.bad_samples().size(), reported.size());
    }
    EXPECT_EQ(hashes.size(), 1u) << bad_count << " bad";
    of_counts.insert(hashes.begin(), hashes.end());
  }
  EXPECT_EQ(of_counts.size(), 4u) << "control: other bad examples give other batches";
  std::printf("1,000 examples with 0, 1, 5 and 50 bad ones: the same batches on 0 to 8 workers\n");
}

TEST(Loader, StopsAboveTheLimitAtTheSameBatch) {
  Numbers::Options options{.size = 1000};
  for (int64_t i = 0; i < 50; ++i) options.bad.insert(i * 20 + 7);
  std::set<int64_t> stopped_at;
  for (const int workers : {0, 1, 2, 4, 8}) {
    Loader loader(std::make_shared<Numbers>(options), shuffled(1000),
                  {.batch_size = 16, .workers = workers, .max_bad = 0.01});
    loader.start_epoch(0);
    int64_t delivered = 0;
    const std::string error = test::message_of(ErrorKind::data, [&] {
      while (loader.next()) ++delivered;
    });
    EXPECT_THAT(error, HasSubstr("more than the 10 that data.max_bad 0.01 allows"));
    EXPECT_THAT(error, HasSubstr("cut off"));
    EXPECT_FALSE(loader.next());
    stopped_at.insert(delivered);
  }
  EXPECT_EQ(stopped_at.size(), 1u);
  EXPECT_GT(*stopped_at.begin(), 0);
}

TEST(Loader, AsksABadFileOnce) {
  const auto data = std::make_shared<Numbers>(Numbers::Options{.size = 100, .bad = {5}});
  Loader loader(data, sequential_sampler(100), {.batch_size = 10, .workers = 0});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    loader.start_epoch(epoch);
    while (loader.next()) {
    }
  }
  EXPECT_EQ(data->reads(), 3 * 100 + 1);
  EXPECT_EQ(loader.bad_samples().size(), 1u);
}

TEST(Loader, CountsAllAsBadWithoutTurningForEver) {
  Numbers::Options options{.size = 6};
  for (int64_t i = 0; i < 6; ++i) options.bad.insert(i);
  for (const OnBad on_bad : {OnBad::replace, OnBad::skip}) {
    Loader loader(std::make_shared<Numbers>(options), sequential_sampler(6),
                  {.batch_size = 2, .workers = 2, .on_bad = on_bad, .max_bad = 1});
    loader.start_epoch(0);
    if (on_bad == OnBad::replace) {
      EXPECT_THROW(loader.next(), Error);
    } else {
      EXPECT_FALSE(loader.next());
      EXPECT_EQ(loader.bad_samples().size(), 6u);
    }
  }
}

TEST(Loader, SkipsBadExamplesInEvaluation) {
  Loader loader(std::make_shared<Numbers>(Numbers::Options{.size = 10, .bad = {0, 3, 4, 5}}),
                sequential_sampler(10),
                {.batch_size = 3, .workers = 2, .on_bad = OnBad::skip, .max_bad = 1});
  loader.start_epoch(0);
  std::vector<int64_t> seen;
  while (const auto batch = loader.next()) {
    for (int64_t row = 0; row < batch->size(); ++row) {
      seen.push_back(batch->indices[static_cast<size_t>(row)]);
      EXPECT_EQ(batch->inputs.data<const float>()[row * 6], static_cast<float>(seen.back() * 1000));
      EXPECT_EQ(batch->labels.data<const int64_t>()[row], seen.back() % 7);
    }
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 2, 6, 7, 8, 9}));
}

TEST(Loader, CarriesOtherErrorsToTheirBatch) {
  for (const int workers : {0, 1, 4}) {
    Loader loader(std::make_shared<Numbers>(Numbers::Options{.throws = 25, .slow = true}),
                  sequential_sampler(100), {.batch_size = 10, .workers = workers});
    loader.start_epoch(0);
    EXPECT_TRUE(loader.next());
    EXPECT_TRUE(loader.next());
    EXPECT_EQ(test::message_of(ErrorKind::usage, [&] { loader.next(); }), "image 25: a fault");
    EXPECT_FALSE(loader.next());
    loader.start_epoch(1, 5);  // and the loader goes on
    EXPECT_TRUE(loader.next());
  }
}

// Each of the allocations of an epoch fails once: the epoch ends with that error, whoever asked.
TEST(Loader, CarriesMemoryThatRanOutToTheCaller) {
  const auto dataset = std::make_shared<Numbers>(Numbers::Options{.size = 24, .bad = {3}});
  for (const auto& [workers, prefetch] : {std::pair{0, 2}, {1, 1}, {3, 2}}) {
    const auto [failures, reported] = test::fail_each_allocation_of_an_epoch([&, workers = workers,
                                                                              prefetch = prefetch] {
      return std::make_unique<Loader>(
          dataset, sequential_sampler(24),
          LoaderOptions{.batch_size = 8, .workers = workers, .prefetch = prefetch, .max_bad = 0.5});
    });
    EXPECT_GT(failures, 30);
    EXPECT_EQ(reported, failures) << workers << " workers";
  }
}

// Batches that come back find a place without any memory being asked for.
TEST(Loader, BatchesComeBackWhenMemoryHasRunOut) {
  for (const std::optional<Device> device : {std::optional<Device>(), std::optional(cpu_device)}) {
    auto pool = device ? std::make_shared<PinnedPool>(*device) : nullptr;
    BatchPool batches({.rows = 2, .row_count = device ? 0 : 6, .classes = 0, .pool = pool});
    std::vector<std::shared_ptr<BatchBuffer>> held;
    for (int i = 0; i < 9; ++i) {
      held.push_back(batches.take());
      if (device) held.back()->images()->reserve(PinnedPool::chunk_bytes);
    }
    const test::FailingNew failing(1);
    held.clear();
  }
}

TEST(Loader, MixesTheSameOnAnyNumberOfWorkers) {
  std::set<std::string> hashes;
  for (const int workers : {0, 1, 4}) {
    Loader loader(std::make_shared<Numbers>(Numbers::Options{.slow = true}), shuffled(100),
                  {.batch_size = 8,
                   .workers = workers,
                   .mix = {.augment = {.mixup = 0.4, .cutmix = 1}, .classes = 7, .seed = 3}});
    loader.start_epoch(2);
    const Batch batch = *loader.next();
    EXPECT_EQ(batch.soft_labels.shape(), Shape({8, 7}));
    hashes.insert(rest_of_epoch(loader));
  }
  EXPECT_EQ(hashes.size(), 1u);
}

// Shut down, or begin another epoch, at random moments.
TEST(Loader, ShutsDownCleanlyAtAnyMoment) {
  constexpr int shutdowns = 200;
  PhiloxStream random(7, 7);
  for (int i = 0; i < shutdowns; ++i) {
    Numbers::Options options{.size = 200, .bad = {3}, .slow = true};
    if (i % 5 == 0) options.throws = 90;
    Loader loader(
        std::make_shared<Numbers>(options), shuffled(200),
        {.batch_size = 4, .workers = static_cast<int>(1 + random.below(4)), .prefetch = 3});
    loader.start_epoch(i);
    try {
      for (uint32_t n = random.below(12); n > 0; --n) loader.next();
      if (i % 3 == 0) loader.start_epoch(i + 1, 7);
      if (i % 2 == 0) loader.next();
    } catch (const Error&) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(1500)));
  }
  std::printf("shutdowns at random moments: %d\n", shutdowns);
}

TEST(Loader, RefusesOptionsOutOfRange) {
  const auto with = [](LoaderOptions options) {
    Loader(std::make_shared<Numbers>(Numbers::Options{}), shuffled(100), std::move(options));
  };
  EXPECT_THROW(with({.batch_size = 0}), Error);
  EXPECT_THROW(with({.workers = -2}), Error);
  EXPECT_THROW(with({.prefetch = 0}), Error);
  EXPECT_THROW(with({.max_bad = 1.5}), Error);
  EXPECT_THROW(with({.mix = {.augment = {.mixup = 1}}}), Error);
  EXPECT_NO_THROW(with({.workers = auto_workers}));
}

}  // namespace
}  // namespace whisker
