// What a batch_norm still has to do where convolutions do the rest of it: see Note [Fused conv +
// norm] in core/cuda/convolution/convolution.h. All vectors are (channels) and f32 unless told
// otherwise.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/runtime/context.h"

namespace whisker::cuda::kernels {

/// folded f16 (2, channels): scale and shift, so that x scale + shift is the normalised x.
void fold_norm(Context& context, int64_t channels, const float* mean, const float* inv_std,
               const float* gamma, const float* beta, void* folded);

struct NormGradient {
  const void* dz = nullptr;  // f16 (rows, channels), as is the next
  const void* x = nullptr;
  const float* dz_factor = nullptr;
  const float* x_factor = nullptr;
  const float* offset = nullptr;
  void* dx = nullptr;  // f16 (rows, channels)
};
/// dx = dz_factor dz + x_factor x + offset. Channels are a multiple of 8, addresses of 16.
void apply_norm_gradient(Context& context, const BatchNormGeometry& g, const NormGradient& p);

}  // namespace whisker::cuda::kernels
