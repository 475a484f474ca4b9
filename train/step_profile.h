// train.profile: a few batches of a run, traced part by part and written beside its other files.
#pragma once

#include "train/step_trace.h"
#include "train/train_step.h"

#include <cstdint>
#include <filesystem>
#include <memory>

namespace whisker {

/// Traces `batches` batches: those after the warm-up (TrainStep::warm_up_batches), or earlier ones
/// where the run has no more.
class StepProfile {
 public:
  StepProfile(TrainStep& step, Device device, int64_t batches)
      : step_(step), device_(device), batches_(batches) {}

  /// Before a batch is asked for; `left` are still to come, this one included.
  void before_batch(int64_t left);
  /// True when the last batch to be traced is done.
  bool after_batch();
  /// The trace that runs now, or null.
  StepTrace* trace() const { return trace_.get(); }
  /// Ends the trace and writes it; returns what to tell.
  std::string write(const std::filesystem::path& file);

 private:
  TrainStep& step_;
  Device device_;
  int64_t batches_;
  int64_t seen_ = 0, traced_ = 0;
  std::unique_ptr<StepTrace> trace_;
};

}  // namespace whisker
