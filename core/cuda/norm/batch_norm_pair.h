// Launchers for two batch norms over tensors (rows, channels) of one type whose results are added,
// in passes over both: y = f(first + second). Statistics are f32; gamma, beta and their gradients
// f32 or as the tensors.
#pragma once

#include "core/cuda/device/channels.h"
#include "core/cuda/memory/allocator.h"
#include "core/geometry.h"

namespace whisker::cuda::kernels {

struct PairedColumns {
  const void* x = nullptr;  // (rows, channels)
  Channels gamma = {}, beta = {};
  const float* mean = nullptr;               // (channels)
  const float* inverse_deviation = nullptr;  // (channels)
};
/// y (rows, channels) from statistics that are known.
void normalise_pair(Context& context, const BatchNormGeometry& g, const PairedColumns& first,
                    const PairedColumns& second, void* y);

/// Null is undefined.
struct PairedColumnGradients {
  void* dx = nullptr;  // (rows, channels)
  Channels dgamma = {}, dbeta = {};
};
struct PairGradient {
  const void* dy = nullptr;    // (rows, channels)
  const void* more = nullptr;  // (rows, channels): added to dy
  PairedColumnGradients first, second;
};
void batch_norm_pair_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                              const PairedColumns& first, const PairedColumns& second,
                              const PairGradient& p);

}  // namespace whisker::cuda::kernels
