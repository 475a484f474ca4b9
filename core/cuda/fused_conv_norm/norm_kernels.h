// What remains of a batch_norm's gradient where a depthwise convolution does the rest of it: see
// Note [Fused conv + norm] in core/cuda/convolution/convolution.h.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/runtime/context.h"

namespace whisker::cuda::kernels {

struct NormGradient {
  const void* dz = nullptr;  // (rows, channels), as is the next
  const void* x = nullptr;
  const float* mean = nullptr;  // (channels), as are the next
  const float* dz_factor = nullptr;
  const float* x_factor = nullptr;
  const float* offset = nullptr;
  void* dx = nullptr;  // (rows, channels), perhaps dz itself
};
/// dx = dz_factor dz + x_factor (x - mean) + offset. Channels fill packs of 16 bytes, addresses are
/// multiples of 16.
void apply_norm_gradient(Context& context, const BatchNormGeometry& g, const NormGradient& p);

}  // namespace whisker::cuda::kernels
