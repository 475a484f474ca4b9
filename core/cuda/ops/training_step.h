// The kernels of the training step: core/backend/step_state.h, core/backend/optimizer_step.h. All
// pointers are device memory; nothing waits for the host.
#pragma once

#include "core/backend/step_state.h"
#include "core/cuda/memory/allocator.h"
#include "core/tensor/dtype_name.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// Logits of one batch (rows, classes) of `dtype`, labels (rows), and its mean loss.
struct Batch {
  DType dtype = DType::f32;
  const void* logits = nullptr;
  const int64_t* labels = nullptr;
  const float* loss = nullptr;
  int64_t rows = 0, classes = 0;
};
void count_batch(Context& context, const StepRule& rule, const Batch& batch, StepState* state);
/// *sum += sum of squares of x (count).
void add_squares(Context& context, Allocator& allocator, DType dtype, const void* x, int64_t count,
                 double* sum);
void begin_update(cudaStream_t stream, const StepRule& rule, StepState* state);

/// OptimizerStep with pointers for tensors.
struct OptimizerUpdate {
  OptimizerKind kind = OptimizerKind::sgd;
  bool nesterov = false, centered = false, decoupled_decay = false;
  double momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0, clip_value = 0;
  const StepState* state = nullptr;
  const double* groups = nullptr;        // (groups, 2)
  const uint8_t* block_group = nullptr;  // one per 64 elements
  int64_t count = 0;
  float* value = nullptr;          // (count)
  const void* gradient = nullptr;  // (count) of gradient_dtype
  void* compute = nullptr;         // (count) of compute_dtype, or null
  float* moments[3] = {};          // (count) or null
  DType gradient_dtype = DType::f32;
  DType compute_dtype = DType::f32;
};
void optimizer_step(cudaStream_t stream, const OptimizerUpdate& update);

/// add_squares of both ranges' gradients and begin_update in one kernel. `second` has f32 gradients
/// and may be empty. Gradients are 16-byte aligned.
void begin_pair_update(Context& context, Allocator& allocator, const OptimizerUpdate& first,
                       const OptimizerUpdate& second, const StepRule& rule, StepState* state);
/// optimizer_step of both in one kernel; false, having done nothing, where an operand is not
/// aligned for packs of four.
bool optimizer_pair(Context& context, const OptimizerUpdate& first, const OptimizerUpdate& second);

/// AverageStep with pointers for tensors.
struct AverageUpdate {
  double decay = 0;
  bool warmup = false;
  const int32_t* applies = nullptr;  // or null
  int64_t* updates = nullptr;
  DType dtype = DType::f32;
  const void* value = nullptr;  // (count)
  void* average = nullptr;      // (count)
  int64_t count = 0;
};
void moving_average(Context& context, const AverageUpdate& update);

/// Copies unless *condition is 0.
void copy_if(cudaStream_t stream, const int32_t* condition, const void* source, void* target,
             int64_t bytes);
void swap(cudaStream_t stream, void* a, void* b, int64_t bytes);

}  // namespace whisker::cuda::kernels
