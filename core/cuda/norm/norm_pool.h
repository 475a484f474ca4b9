// Launchers of a batch norm over images (N,H,W,C) followed by max-pooling, fused: see Note [Argmax
// before normalising] in core/backend/fused_ops.h. Statistics are f32; gamma, beta and
// their gradients are f32 or as x.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.h"
#include "core/cuda/memory/allocator.h"

#include <cstdint>

namespace whisker::cuda::kernels {

struct NormPool {
  const void* x = nullptr;  // (N,H,W,C)
  Channels gamma = {}, beta = {};
  const float* mean = nullptr;     // (C)
  const float* inv_std = nullptr;  // (C)
};
/// (N, h_out, w_out, C) each.
struct PooledResults {
  void* y = nullptr;
  void* x_at_argmax = nullptr;  // x at argmax; null: neither it nor argmax is wanted
  uint8_t* argmax = nullptr;    // see core/cuda/ops/pooling.h
};
/// y, x_at_argmax and argmax, from known statistics.
void norm_pool(const Context& context, const BatchNormGeometry& g, const Pool2dGeometry& pool,
               const NormPool& norm, const PooledResults& r);

/// Null is undefined; x_at_argmax, argmax, dy and more are (N, h_out, w_out, C).
struct PooledGradient {
  const void* x_at_argmax = nullptr;
  const uint8_t* argmax = nullptr;  // null without dx, as is NormPool::x
  const void* dy = nullptr;
  const void* more = nullptr;  // added to dy
  void* dx = nullptr;          // (N,H,W,C)
  Channels dgamma = {}, dbeta = {};
};
void norm_pool_backward(Context& context, Allocator& allocator, const BatchNormGeometry& g,
                        const Pool2dGeometry& pool, const NormPool& norm, const PooledGradient& p);

}  // namespace whisker::cuda::kernels
