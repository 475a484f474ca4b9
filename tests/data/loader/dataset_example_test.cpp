// A dataset, a collate function, a sampler and a stream of one's own, as a user of the library
// writes them; docs/guide/library.md quotes them.
#include "core/tensor/philox.h"
#include "data/loader/loader.h"
#include "data/loader/stream_loader.h"

#include <cmath>
#include <set>
#include <utility>

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
    return {.input = from_vector({turn * std::cos(angle), turn * std::sin(angle)}, {2}),
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
    EXPECT_EQ(batch->inputs.shape(), Shape({batch->size(), 2}));
    for (const int64_t label : batch->labels.data<const int64_t>()) second_arm += label;
    rows += batch->size();
  }
  EXPECT_EQ(rows, 100);
  EXPECT_EQ(second_arm, 50);
}

/// The points with noise, other noise in each epoch, that fades as training goes on.
Batch with_noise(std::span<const Sample> samples, const BatchKey& key) {
  Batch batch = stack_samples(samples);
  PhiloxStream random(/*seed=*/1, stream_of("noise") + static_cast<uint64_t>(key.epoch),
                      /*first_block=*/static_cast<uint64_t>(key.number) << 20);
  const double size = 0.1 / static_cast<double>(1 + key.epoch);
  for (float& value : batch.inputs.data<float>()) {
    value += static_cast<float>(size * (2 * random.uniform() - 1));
  }
  return batch;
}

std::vector<double> values_of(Loader& loader, int64_t epoch, int64_t first_batch = 0) {
  std::vector<double> values;
  loader.start_epoch(epoch, first_batch);
  while (const std::optional<Batch> batch = loader.next()) {
    for (const double value : batch->inputs.to_vector()) values.push_back(value);
  }
  return values;
}

TEST(DatasetExample, NoiseOfTheEpochWhateverTheWorkers) {
  const auto points = std::make_shared<Spirals>(40);
  const auto loader = [&](int workers, Collate collate) {
    return Loader(points, sequential_sampler(40),
                  {.batch_size = 16, .workers = workers, .collate = std::move(collate)});
  };
  Loader one = loader(1, with_noise), four = loader(4, with_noise), clean = loader(0, {});
  const std::vector<double> exact = values_of(clean, 0), first = values_of(one, 0),
                            tenth = values_of(one, 9);
  EXPECT_EQ(first, values_of(four, 0));
  EXPECT_EQ(tenth, values_of(four, 9));
  EXPECT_NE(first, tenth);
  const std::vector<double> resumed = values_of(four, 9, 1);  // from the second batch on
  EXPECT_TRUE(std::equal(resumed.begin(), resumed.end(), tenth.begin() + 32, tenth.end()));
  double far_first = 0, far_tenth = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    far_first = std::max(far_first, std::abs(first[i] - exact[i]));
    far_tenth = std::max(far_tenth, std::abs(tenth[i] - exact[i]));
  }
  EXPECT_GT(far_first, 0.05);
  EXPECT_LE(far_first, 0.1 + 1e-6);
  EXPECT_GT(far_tenth, 0.005);
  EXPECT_LE(far_tenth, 0.01 + 1e-6);
}

/// The examples in their order, the first tenth of them in the first epoch, then two tenths, ...
class Growing final : public Sampler {
 public:
  explicit Growing(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> order(int64_t epoch) const override {
    std::vector<int64_t> order;
    const int64_t known = std::min(size_, (epoch + 1) * size_ / 10);
    for (int64_t i = 0; i < size_; ++i) order.push_back(i % known);
    return order;
  }

 private:
  int64_t size_;
};

TEST(DatasetExample, ASamplerOfOnesOwn) {
  Loader loader(std::make_shared<Spirals>(100), std::make_shared<Growing>(100), {.batch_size = 50});
  for (const int64_t epoch : {0, 3, 20}) {
    std::set<int64_t> seen;
    loader.start_epoch(epoch);
    while (const std::optional<Batch> batch = loader.next()) {
      seen.insert(batch->indices.begin(), batch->indices.end());
    }
    EXPECT_EQ(std::ssize(seen), std::min<int64_t>(100, (epoch + 1) * 10));
  }
}

/// The spiral as a stream whose length nobody asks for.
class SpiralStream final : public IterableDataset {
 public:
  explicit SpiralStream(int64_t size) : points_(size) {}
  void start(StreamStart where) override {
    next_ = where.skip + where.rank;
    step_ = where.world;
  }
  std::optional<Sample> next() override {
    if (next_ >= points_.size()) return std::nullopt;
    return points_.get(std::exchange(next_, next_ + step_));
  }

 private:
  Spirals points_;
  int64_t next_ = 0, step_ = 1;
};

TEST(DatasetExample, AStreamOfOnesOwn) {
  StreamLoader loader(std::make_shared<SpiralStream>(40), {.batch_size = 16});
  loader.start_epoch(0);
  std::vector<int64_t> sizes;
  while (const std::optional<Batch> batch = loader.next()) sizes.push_back(batch->size());
  EXPECT_EQ(sizes, (std::vector<int64_t>{16, 16, 8}));
}

}  // namespace
}  // namespace whisker
