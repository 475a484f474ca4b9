// Orders of a dataset: sequential, shuffled, weighted, balanced.
#include "data/sampler.h"

#include "core/error.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace whisker {
namespace {

constexpr int64_t max_size = std::numeric_limits<uint32_t>::max();

void check(int64_t size) {
  if (size < 0 || size > max_size) {
    fail(ErrorKind::usage, "sampler: expected a size from 0 to {}, got {}", max_size, size);
  }
}

/// The random numbers of (seed, stream, round): rounds are 2^32 blocks apart.
PhiloxStream draws(uint64_t seed, uint64_t stream, uint64_t round) {
  return PhiloxStream(seed, stream, round << 32);
}

class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> order(int64_t /*epoch*/) const override {
    std::vector<int64_t> all(static_cast<size_t>(size_));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

 private:
  int64_t size_;
};

class SeededSampler : public Sampler {
 public:
  SeededSampler(int64_t total, uint64_t seed) : total_(total), seed_(seed) {}
  int64_t size() const final { return total_; }
  std::vector<int64_t> order(int64_t epoch) const final {
    return order_of(static_cast<uint64_t>(epoch));
  }

 protected:
  virtual std::vector<int64_t> order_of(uint64_t epoch) const = 0;
  int64_t total() const { return total_; }
  uint64_t seed() const { return seed_; }

 private:
  int64_t total_;
  uint64_t seed_;
};

class ShuffleSampler final : public SeededSampler {
 public:
  ShuffleSampler(int64_t size, ShuffleOptions options) : SeededSampler(size, options.seed) {}

 private:
  std::vector<int64_t> order_of(uint64_t epoch) const override {
    std::vector<int64_t> order(static_cast<size_t>(total()));
    std::iota(order.begin(), order.end(), 0);
    shuffle(order, seed(), stream_of("shuffle"), epoch);
    return order;
  }
};

class WeightedSampler final : public SeededSampler {
 public:
  WeightedSampler(std::vector<double> cumulative, int64_t count, WeightedOptions options)
      : SeededSampler(count, options.seed), cumulative_(std::move(cumulative)) {}

 private:
  std::vector<int64_t> order_of(uint64_t epoch) const override {
    PhiloxStream random = draws(seed(), stream_of("weighted"), epoch);
    std::vector<int64_t> order(static_cast<size_t>(total()));
    for (int64_t& index : order) {
      // The first index whose cumulative weight is above the draw: one of weight zero never is.
      const double at = random.uniform() * cumulative_.back();
      index =
          std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, at) - cumulative_.begin();
    }
    return order;
  }

  std::vector<double> cumulative_;  // up to and including each index; cut after the last above zero
};

class BalancedSampler final : public SeededSampler {
 public:
  BalancedSampler(std::vector<std::vector<int64_t>> members, int64_t count, ShuffleOptions options)
      : SeededSampler(count, options.seed), members_(std::move(members)) {}

 private:
  std::vector<int64_t> order_of(uint64_t epoch) const override {
    const auto classes = static_cast<int64_t>(members_.size());
    std::vector<int64_t> order;
    order.reserve(static_cast<size_t>(total()));
    for (int64_t label = 0; label < classes; ++label) {
      // The classes' rounds run on over the epochs, so that leftovers come first in the next one.
      const auto& members = members_[static_cast<size_t>(label)];
      const auto size = static_cast<uint64_t>(members.size());
      const auto quota = static_cast<uint64_t>(total() / classes + (label < total() % classes));
      const uint64_t stream = stream_of("balanced") + static_cast<uint64_t>(label);
      std::vector<int64_t> round;
      for (uint64_t position = epoch * quota; position < (epoch + 1) * quota; ++position) {
        if (round.empty() || position % size == 0) {
          round = members;
          shuffle(round, seed(), stream, position / size);
        }
        order.push_back(round[position % size]);
      }
    }
    shuffle(order, seed(), stream_of("balanced order"), epoch);
    return order;
  }

  std::vector<std::vector<int64_t>> members_;  // indices of each class
};

}  // namespace

void shuffle(std::span<int64_t> values, uint64_t seed, uint64_t stream, uint64_t round) {
  check(static_cast<int64_t>(values.size()));
  PhiloxStream random = draws(seed, stream, round);
  for (size_t left = values.size(); left > 1; --left) {
    std::swap(values[left - 1], values[random.below(static_cast<uint32_t>(left))]);
  }
}

std::unique_ptr<Sampler> sequential_sampler(int64_t size) {
  check(size);
  return std::make_unique<SequentialSampler>(size);
}

std::unique_ptr<Sampler> shuffle_sampler(int64_t size, ShuffleOptions options) {
  check(size);
  return std::make_unique<ShuffleSampler>(size, options);
}

std::unique_ptr<Sampler> weighted_sampler(std::span<const double> weights,
                                          WeightedOptions options) {
  const auto count = static_cast<int64_t>(weights.size());
  check(count);
  check(options.draws);
  std::vector<double> cumulative;
  size_t used = 0;
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i]) || weights[i] < 0) {
      fail(ErrorKind::usage,
           "weighted_sampler: expected weights of at least 0, got {} for index {}", weights[i], i);
    }
    sum += weights[i];
    cumulative.push_back(sum);
    if (weights[i] > 0) used = i + 1;
  }
  if (used == 0 || !std::isfinite(sum)) {
    fail(ErrorKind::usage, "weighted_sampler: expected a positive sum of {} weights, got {}", count,
         sum);
  }
  cumulative.resize(used);
  const int64_t draw_count = options.draws > 0 ? options.draws : count;
  return std::make_unique<WeightedSampler>(std::move(cumulative), draw_count, options);
}

std::unique_ptr<Sampler> balanced_sampler(std::span<const int64_t> labels, ShuffleOptions options) {
  const auto count = static_cast<int64_t>(labels.size());
  check(count);
  std::vector<std::vector<int64_t>> members;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = labels[static_cast<size_t>(i)];
    if (label < 0 || label >= count) {
      fail(ErrorKind::data, "balanced_sampler: expected labels from 0 to {}, got {} for index {}",
           count - 1, label, i);
    }
    if (static_cast<size_t>(label) >= members.size()) {
      members.resize(static_cast<size_t>(label) + 1);
    }
    members[static_cast<size_t>(label)].push_back(i);
  }
  for (size_t label = 0; label < members.size(); ++label) {
    if (members[label].empty()) {
      fail(ErrorKind::data,
           "balanced_sampler: class {} of {} has no examples. Remove the class or use "
           "data.sampling: shuffle.",
           label, members.size());
    }
  }
  return std::make_unique<BalancedSampler>(std::move(members), count, options);
}

}  // namespace whisker
