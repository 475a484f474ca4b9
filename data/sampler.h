// The order in which a dataset is read. An order is a function of (options, epoch) alone, so a
// resumed run continues at batch k of epoch e, and several processes agree without communication.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace whisker {

/// This process's part of a run: rows rank, rank + world, ... of every batch, or positions of a
/// stream. The ranks' parts together are one process's batch.
struct Partition {
  int rank = 0;
  int world = 1;
  /// How many of `rows` they are.
  int64_t of(int64_t rows) const { return (rows - rank + world - 1) / world; }
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  /// Examples per epoch.
  virtual int64_t size() const = 0;
  /// Their indices in order.
  virtual std::vector<int64_t> order(int64_t epoch) const = 0;
};

/// 0, 1, ..., size - 1.
std::unique_ptr<Sampler> sequential_sampler(int64_t size);

struct ShuffleOptions {
  uint64_t seed = 0;
};

/// Every index once, shuffled by Fisher and Yates keyed by (seed, epoch).
std::unique_ptr<Sampler> shuffle_sampler(int64_t size, ShuffleOptions options);

struct WeightedOptions {
  uint64_t seed = 0;
  int64_t draws = 0;  ///< per epoch; 0: as many as there are weights
};

/// Draws with replacement, index i with probability weights[i] / sum. Throws usage for a negative
/// or non-finite weight, or when all are zero.
std::unique_ptr<Sampler> weighted_sampler(std::span<const double> weights, WeightedOptions options);

/// Every class equally often: labels.size() / classes draws of each (the first classes one more
/// when that does not divide). A class's examples come in shuffled rounds, so none is drawn twice
/// before all have been drawn once. Labels must cover 0 .. max without a gap, else throws data.
std::unique_ptr<Sampler> balanced_sampler(std::span<const int64_t> labels, ShuffleOptions options);

/// Shuffles `values` by Fisher and Yates with the draws of (seed, stream, round).
void shuffle(std::span<int64_t> values, uint64_t seed, uint64_t stream, uint64_t round);

}  // namespace whisker
