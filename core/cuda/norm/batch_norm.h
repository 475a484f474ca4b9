// Batch normalisation over x (rows, channels) of f32, bf16 or f16. Statistics are f32;
// gamma, beta and their gradients f32 or as x.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.h"
#include "core/cuda/memory/allocator.h"

#include <cuda_runtime_api.h>

namespace whisker {
struct RunningStatistics;
struct TrainingNorm;
}  // namespace whisker

namespace whisker::cuda::kernels {

struct BatchNorm {
  const void* x = nullptr;         // (rows, channels)
  const void* residual = nullptr;  // (rows, channels) or null
  void* y = nullptr;               // (rows, channels)
  Channels gamma = {}, beta = {};
  const float* sums = nullptr;  // (3, channels) as SummedOutput's, or null
  float* mean = nullptr;        // (channels)
  float* inv_std = nullptr;     // (channels); written in training
  float* variance = nullptr;    // (channels), biased; read in inference, written from sums
};
/// whisker::RunningStatistics with pointers, (channels) each or all null.
struct Running {
  const float* mean = nullptr;
  const float* variance = nullptr;
  float* pending_mean = nullptr;
  float* pending_variance = nullptr;
  float kept = 0, added = 0;  // 1 - momentum and momentum
  static Running of(const RunningStatistics& running);
};
void batch_norm_train(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                      const BatchNorm& p, const Running& running);
/// Only the first pass of training: mean, inv_std and `running` from p.x; where p.sums is not
/// null, from those, and p.variance too.
void batch_norm_statistics(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                           const BatchNorm& p, const Running& running);
/// batch_norm_statistics of operands that are tensors.
void batch_norm_statistics(Context& context, Allocator& allocator, const TrainingNorm& norm);
void batch_norm_inference(Context& context, const BatchNormGeometry& g, const BatchNorm& p);

/// As NormalizationKernels::batch_norm_backward; null is undefined.
struct BatchNormGradient {
  const void* x = nullptr;       // (rows, channels)
  const void* y = nullptr;       // (rows, channels)
  const void* dy = nullptr;      // (rows, channels)
  const void* factor = nullptr;  // (images, channels) of dy; then fewer than 2^31 rows
  const void* more = nullptr;    // (rows, channels), beside a factor (images, channels): added
  Channels gamma = {}, beta = {};
  const float* mean = nullptr;     // (channels)
  const float* inv_std = nullptr;  // (channels)
  void* dx = nullptr;              // (rows, channels)
  Channels dgamma = {}, dbeta = {};
  void* dresidual = nullptr;  // (rows, channels)
};
void batch_norm_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                         const BatchNormGradient& p);

/// Coefficients of dx = scale dz + (x - mean) slope + shift, f32 (channels) each, or null.
struct InputCoefficients {
  float* slope = nullptr;
  float* shift = nullptr;
  float rows = 0;  // of the statistics
};
/// Only the first pass of batch_norm_backward, over any rows that contain all of dy: dgamma, dbeta,
/// `k` and p.dresidual = dz. relu's slope comes from p.x.
void batch_norm_gradient_sums(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                              const BatchNormGradient& p, const InputCoefficients& k);

}  // namespace whisker::cuda::kernels
