// The kernels of the training step: core/backend/step_state.h, core/backend/optimizer_step.h. All
// pointers are device memory. Whatever changes from step to step is read there, and nothing waits
// for the host, so that a whole step can be captured.
#pragma once

#include "core/backend/optimizer_step.h"
#include "core/backend/step_state.h"

#include <span>

namespace whisker {

/// What counting a batch takes besides its logits and its loss.
struct BatchCount {
  StepRule rule = {};
  Tensor labels = {};          ///< i64 (rows), on the logits' device
  StepState* state = nullptr;  ///< in device memory
};

class TrainingStepKernels {
 public:
  virtual ~TrainingStepKernels() = default;

  /// Counts a batch in count.state (whisker::count_batch). logits f32 (rows, classes), or (rows, 1)
  /// for two classes told apart by the sign; loss f32, one element. A row is right when its first
  /// largest logit, or a logit above 0 for label 1, is the label's.
  virtual void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) = 0;
  /// *sum += sum of squares of a flat tensor, in f64; in one order, whatever the device's load.
  virtual void add_squares(const Tensor& x, double* sum) = 0;
  /// whisker::begin_update with sqrt(state->square_sum).
  virtual void begin_update(const StepRule& rule, StepState* state) = 0;
  virtual void optimizer_step(const OptimizerStep& step) = 0;
  /// The whole update of all runs of an arena. Default: add_squares of their gradients,
  /// begin_update, optimizer_step. Override with fused kernels.
  virtual void update(const StepRule& rule, StepState* state, std::span<const OptimizerStep> runs) {
    for (const OptimizerStep& run : runs) add_squares(run.gradient, &state->square_sum);
    begin_update(rule, state);
    for (const OptimizerStep& run : runs) optimizer_step(run);
  }
  virtual void moving_average(const AverageStep& step) = 0;
  /// Copies unless *condition is 0.
  virtual void copy_if(const int32_t* condition, const void* source, void* target,
                       int64_t bytes) = 0;
  virtual void swap(const Tensor& a, const Tensor& b) = 0;
};

}  // namespace whisker
