// Batches for one training step, which has told once where they are to go, from one loader after
// the other.
#pragma once

#include "data/batch_source.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace whisker::bench {

class SwitchedSource final : public BatchSource {
 public:
  /// From now on all is asked of `source`.
  void set(std::unique_ptr<BatchSource> source) {
    source_ = std::move(source);
    if (target_.defined()) source_->write_into(target_);
  }
  int64_t batches() const override { return source_->batches(); }
  void start_epoch(int64_t epoch, int64_t first) override { source_->start_epoch(epoch, first); }
  std::optional<Batch> next() override { return source_->next(); }
  void write_into(const Tensor& inputs) override {
    target_ = inputs;
    source_->write_into(inputs);
  }
  LoaderStats stats() const override { return source_->stats(); }
  double jpeg_share() const override { return source_->jpeg_share(); }
  std::string take_note() override { return source_->take_note(); }
  const std::vector<BadSample>& bad_samples() const override { return source_->bad_samples(); }

 private:
  std::unique_ptr<BatchSource> source_;
  Tensor target_;
};

}  // namespace whisker::bench
