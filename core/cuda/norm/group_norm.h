// Group normalisation of x (n, positions, channels) of f32, bf16 or f16. Statistics are f32; gamma,
// beta and their gradients f32 or as x.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda::kernels {

struct GroupNorm {
  DType dtype = DType::f32;
  const void* x = nullptr;  // (n, positions, channels)
  void* y = nullptr;        // (n, positions, channels)
  Channels gamma, beta;
  float* mean = nullptr;     // (n, groups)
  float* inv_std = nullptr;  // (n, groups)
};
void group_norm(Context& context, Allocator& allocator, const GroupNormGeometry& g,
                const GroupNorm& p);

/// As NormalizationKernels::group_norm_backward; null is undefined.
struct GroupNormGradient {
  DType dtype = DType::f32;
  const void* x = nullptr;   // (n, positions, channels)
  const void* dy = nullptr;  // (n, positions, channels)
  Channels gamma;
  const float* mean = nullptr;     // (n, groups)
  const float* inv_std = nullptr;  // (n, groups)
  void* dx = nullptr;              // (n, positions, channels)
  Channels dgamma, dbeta;
};
void group_norm_backward(Context& context, Allocator& allocator, const GroupNormGeometry& g,
                         const GroupNormGradient& p);

}  // namespace whisker::cuda::kernels
