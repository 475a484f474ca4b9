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
  const void* dz = nullptr;  // (rows, channels), as is the next
  const void* x = nullptr;
  const float* mean = nullptr;  // or null: 0
  const float* dz_factor = nullptr;
  const float* x_factor = nullptr;
  const float* offset = nullptr;
  void* dx = nullptr;  // (rows, channels), perhaps dz itself
};
/// dx = dz_factor dz + x_factor (x - mean) + offset. Channels fill packs of 16 bytes, addresses are
/// multiples of 16.
void apply_norm_gradient(Context& context, const BatchNormGeometry& g, const NormGradient& p);

}  // namespace whisker::cuda::kernels
