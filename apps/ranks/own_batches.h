// Ranks of `evaluate` take turns with whole batches: each is computed as one process would.
#pragma once

#include "core/communicator/rank_group.h"
#include "data/batch_source.h"
#include "data/sampler.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace whisker {

/// The examples of this rank's batches, in order.
class OwnBatches final : public Sampler {
 public:
  OwnBatches(int64_t size, int64_t batch_size, const RankGroup& ranks) {
    for (int64_t i = 0; i < size; ++i) {
      if (i / batch_size % ranks.world() == ranks.rank()) indices_.push_back(i);
    }
  }
  int64_t size() const override { return std::ssize(indices_); }
  std::vector<int64_t> order(int64_t) const override { return indices_; }

 private:
  std::vector<int64_t> indices_;
};

/// This rank's batches of a source.
class OwnBatchSource final : public BatchSource {
 public:
  OwnBatchSource(BatchSource& source, const RankGroup& ranks) : source_(source), ranks_(ranks) {}
  int64_t batches() const override { return source_.batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    source_.start_epoch(epoch, first_batch);
    next_ = first_batch;
  }
  std::optional<Batch> next() override {
    for (;;) {
      std::optional<Batch> batch = source_.next();
      if (!batch || next_++ % ranks_.world() == ranks_.rank()) return batch;
    }
  }
  LoaderStats stats() const override { return source_.stats(); }

 private:
  BatchSource& source_;
  const RankGroup& ranks_;
  int64_t next_ = 0;
};

}  // namespace whisker
