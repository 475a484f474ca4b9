// Layer normalisation over rows of x (rows, features) of f32, bf16 or f16. Statistics
// are f32; gamma, beta and their gradients f32 or as x.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.h"
#include "core/cuda/memory/allocator.h"

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

struct LayerNorm {
  DType dtype = DType::f32;
  const void* x = nullptr;  // (rows, features)
  void* y = nullptr;        // (rows, features)
  Channels gamma, beta;
  float* mean = nullptr;     // (rows)
  float* inv_std = nullptr;  // (rows)
};
void layer_norm(Context& context, const LayerNormGeometry& g, const LayerNorm& p);

/// As NormalizationKernels::layer_norm_backward; null is undefined.
struct LayerNormGradient {
  DType dtype = DType::f32;
  const void* x = nullptr;   // (rows, features)
  const void* dy = nullptr;  // (rows, features)
  Channels gamma;
  const float* mean = nullptr;     // (rows)
  const float* inv_std = nullptr;  // (rows)
  void* dx = nullptr;              // (rows, features)
  Channels dgamma, dbeta;
};
void layer_norm_backward(Context& context, Allocator& allocator, const LayerNormGeometry& g,
                         const LayerNormGradient& p);

}  // namespace whisker::cuda::kernels
