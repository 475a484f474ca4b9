// One long text for a language model: split into as many rows as a batch has, each read from
// beginning to end, a few steps per batch. A row continues where it ended in the batch before, so
// that recurrent states are carried (truncated back-propagation through time; Williams and Peng
// 1990).
#pragma once

#include "data/batch_source.h"
#include "data/sampler.h"

#include <cstdint>
#include <vector>

namespace whisker {

struct TextStreamOptions {
  int64_t rows = 32;    ///< of a batch, over all ranks
  int64_t steps = 64;   ///< of a batch; the last of an epoch may have fewer
  Partition part = {};  ///< of each batch
};

class TextStream final : public BatchSource {
 public:
  /// `tokens`: the whole text. Throws data when it is too short for two tokens in each row.
  TextStream(std::vector<int64_t> tokens, TextStreamOptions options);

  int64_t batches() const override;
  /// The batches are the same in every epoch. Only the first does not continue another.
  void start_epoch(int64_t epoch, int64_t first_batch = 0) override;
  /// inputs i64 (T, N) and labels i64 (T, N), the token that follows each.
  std::optional<Batch> next() override;
  LoaderStats stats() const override { return stats_; }
  /// Predicted tokens per epoch, over all ranks.
  int64_t predictions() const { return options_.rows * row_steps_; }
  std::string fingerprint() const;
  /// That the last tokens, which fill no step of all rows, are not read; "" where all are.
  std::string unread_note() const;

 private:
  std::vector<int64_t> tokens_;
  TextStreamOptions options_;
  int64_t row_steps_ = 0;  // predictions of each row
  int64_t next_ = 0;       // batch
  LoaderStats stats_;
};

}  // namespace whisker
