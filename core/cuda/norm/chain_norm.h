// What a batch_norm still has to do where convolutions do the rest of it: see Note [Chains]. All
// vectors are (channels) and f32 unless told otherwise.
#pragma once

#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda::kernels {

struct SummedStatistics {
  const float* sums = nullptr;         // (2, channels): of x and of its squares
  float* mean = nullptr;               // written, as are the next
  float* variance = nullptr;           // biased; null: not wanted
  float* inverse_deviation = nullptr;  //
};
/// mean, variance, inverse_deviation and `running` of what `sums` are of.
void statistics_of_sums(Context& context, const BatchNormGeometry& g, const SummedStatistics& p,
                        const Running& running);

/// folded f16 (2, channels): scale and shift, so that x scale + shift is the normalised x.
void fold_norm(Context& context, int64_t channels, const float* mean,
               const float* inverse_deviation, const float* gamma, const float* beta, void* folded);

struct ChainGradient {
  const void* dz = nullptr;  // f16 (rows, channels), as is the next
  const void* x = nullptr;
  const float* dz_factor = nullptr;
  const float* x_factor = nullptr;
  const float* offset = nullptr;
  void* dx = nullptr;  // f16 (rows, channels)
};
/// dx = dz_factor dz + x_factor x + offset. Channels are a multiple of 8, addresses of 16.
void apply_chain_gradient(Context& context, const BatchNormGeometry& g, const ChainGradient& p);

}  // namespace whisker::cuda::kernels
