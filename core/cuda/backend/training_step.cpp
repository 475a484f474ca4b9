// The training step.
#include "core/cuda/ops/training_step.h"

#include "core/backend/training_step.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/cuda_kernels.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

kernels::OptimizerUpdate update_of(const OptimizerStep& s) {
  return {.kind = s.kind,
          .nesterov = s.nesterov,
          .centered = s.centered,
          .decoupled_decay = s.decoupled_decay,
          .momentum = s.momentum,
          .beta1 = s.beta1,
          .beta2 = s.beta2,
          .epsilon = s.epsilon,
          .clip_value = s.clip_value,
          .state = s.state,
          .groups = static_cast<const double*>(s.groups.raw()),
          .block_group = static_cast<const uint8_t*>(s.block_group.raw()),
          .count = s.value.count(),
          .value = f32(s.value),
          .gradient = s.gradient.raw(),
          .compute = pointer(s.compute),
          .moments = {f32(s.moment1), f32(s.moment2), f32(s.moment3)},
          .gradient_dtype = s.gradient.dtype(),
          .compute_dtype = s.compute.defined() ? s.compute.dtype() : DType::f32};
}

class TrainingStep final : public TrainingStepKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void count_batch(const Tensor& logits, const Tensor& loss, const BatchCount& count) override {
    context_.enter();
    kernels::count_batch(context_, count.rule,
                         {.dtype = logits.dtype(),
                          .logits = logits.raw(),
                          .labels = static_cast<const int64_t*>(count.labels.raw()),
                          .loss = f32(loss),
                          .rows = logits.extent(0),
                          .classes = logits.extent(1)},
                         count.state);
  }

  void add_squares(const Tensor& x, double* sum) override {
    context_.enter();
    kernels::add_squares(context_, allocator_, x.dtype(), x.raw(), x.count(), sum);
  }

  void begin_update(const StepRule& rule, StepState* state) override {
    kernels::begin_update(stream(), rule, state);
  }

  void optimizer_step(const OptimizerStep& s) override {
    kernels::optimizer_step(stream(), update_of(s));
  }

  void moving_average(const AverageStep& step) override {
    context_.enter();
    kernels::moving_average(context_, {.decay = step.decay,
                                       .warmup = step.warmup,
                                       .applies = step.applies,
                                       .updates = step.updates,
                                       .dtype = step.value.dtype(),
                                       .value = step.value.raw(),
                                       .average = step.average.raw(),
                                       .count = step.value.count()});
  }

  void copy_if(const int32_t* condition, const void* source, void* target, int64_t bytes) override {
    kernels::copy_if(stream(), condition, source, target, bytes);
  }

  // Two kernels for what Note [Compute views] makes of an arena: one run, or one and one of f32.
  void update(const StepRule& rule, StepState* state,
              std::span<const OptimizerStep> runs) override {
    context_.enter();
    const bool is_fused =
        !runs.empty() && runs.size() <= 2 && runs.back().value.dtype() == DType::f32 &&
        (runs.size() == 1 || runs.back().gradient.dtype() == DType::f32) &&
        std::ranges::all_of(
            runs, [](const OptimizerStep& run) { return is_aligned(run.gradient.raw()); });
    if (!is_fused) return TrainingStepKernels::update(rule, state, runs);
    const kernels::OptimizerUpdate first = update_of(runs.front());
    const kernels::OptimizerUpdate second =
        runs.size() == 2 ? update_of(runs.back()) : kernels::OptimizerUpdate{.state = state};
    kernels::begin_pair_update(context_, allocator_, first, second, rule, state);
    if (kernels::optimizer_pair(context_, first, second)) return;
    for (const OptimizerStep& run : runs) optimizer_step(run);
  }

  void swap(const Tensor& a, const Tensor& b) override {
    kernels::swap(stream(), a.raw(), b.raw(), a.bytes());
  }
};

}  // namespace

std::shared_ptr<TrainingStepKernels> make_training_step(CudaDevice& device) {
  return std::make_shared<TrainingStep>(device);
}

}  // namespace whisker::cuda
