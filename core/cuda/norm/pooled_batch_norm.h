// Launchers for a batch norm over pictures (N,H,W,C) and the max-pooling behind it, in passes over
// both: see Note [Winners before normalising] in core/pooled_batch_norms.h. Statistics are f32;
// gamma, beta and their gradients f32 or as x.
#pragma once

#include "core/cuda/device/channels.h"
#include "core/cuda/memory/allocator.h"
#include "core/geometry.h"

#include <cstdint>

namespace whisker::cuda::kernels {

struct PooledNorm {
  const void* x = nullptr;  // (N,H,W,C)
  Channels gamma = {}, beta = {};
  const float* mean = nullptr;               // (C)
  const float* inverse_deviation = nullptr;  // (C)
};
/// (N, h_out, w_out, C) each.
struct PooledResults {
  void* y = nullptr;
  void* won = nullptr;  // the elements of x that won; null: neither they nor places are wanted
  uint8_t* places = nullptr;  // where in their windows
};
/// Results from statistics that are known.
void normalise_pooled(const Context& context, const BatchNormGeometry& g,
                      const Pool2dGeometry& pool, const PooledNorm& norm, const PooledResults& r);

/// Null is undefined; won, places, dy and more are (N, h_out, w_out, C).
struct PooledGradient {
  const void* won = nullptr;
  const uint8_t* places = nullptr;  // null without dx, as is PooledNorm::x
  const void* dy = nullptr;
  const void* more = nullptr;  // added to dy
  void* dx = nullptr;          // (N,H,W,C)
  Channels dgamma = {}, dbeta = {};
};
void pooled_batch_norm_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                                const Pool2dGeometry& pool, const PooledNorm& norm,
                                const PooledGradient& p);

}  // namespace whisker::cuda::kernels
