// Batches of a SequenceSet, grouped by length to reduce padding. An epoch's batches are a function
// of (options, epoch) alone, like a sampler's order.
#pragma once

#include "data/batch_source.h"
#include "data/sampler.h"
#include "data/sequences/sequence_set.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace whisker {

/// The lengths that batches are padded to: at most `count` of them, ascending, each holding about
/// as many of `lengths` as the others, the last one the longest. `count` 1 or more.
std::vector<int64_t> bucket_lengths(std::span<const int64_t> lengths, int64_t count);

struct SequenceSourceOptions {
  int64_t batch_size = 32;  ///< over all ranks
  /// See bucket_lengths(). Empty: batches follow the order, padded to the longest sequence of all.
  std::vector<int64_t> buckets = {};
  bool drop_last = false;  ///< drop a last batch that is not full
  bool shuffle = true;     ///< batches in random order, keyed by (seed, epoch)
  uint64_t seed = 0;
  Partition part = {};  ///< of each batch
};

class SequenceSource final : public BatchSource {
 public:
  /// Throws usage for a batch size below 1.
  SequenceSource(std::shared_ptr<const SequenceSet> set, std::shared_ptr<const Sampler> sampler,
                 SequenceSourceOptions options);

  int64_t batches() const override;
  void start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  std::optional<Batch> next() override;
  LoaderStats stats() const override { return stats_; }

 private:
  struct Group {
    std::vector<int64_t> indices;
    int64_t steps = 0;
  };
  std::vector<Group> groups(int64_t epoch) const;

  std::shared_ptr<const SequenceSet> set_;
  std::shared_ptr<const Sampler> sampler_;
  SequenceSourceOptions options_;
  std::vector<Group> groups_;  // of the epoch
  size_t next_ = 0;
  LoaderStats stats_;
};

}  // namespace whisker
