// The dense layer where launching costs more than computing: one kernel forward, one backward.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/runtime/context.h"

namespace whisker::cuda {

/// True where the kernels below are faster than library gemms, by fewer launches: every extent is a
/// few tiles at most.
inline bool is_small(const LinearGeometry& g) {
  constexpr int64_t most = 128;
  return g.rows <= most && g.in <= most && g.out <= most;
}

/// True where the gradients' kernel is faster: also for few outputs, as in a network's last layer,
/// where libraries launch three kernels.
inline bool has_small_gradients(const LinearGeometry& g) {
  return is_small(g) || (g.rows <= 256 && g.in <= 2048 && g.out <= 32);
}

/// y (rows, out) = f(x (rows, in) w^T (out, in) + b (out)); b may be null.
void small_linear(const Context& context, const LinearGeometry& g, const void* x, const void* w,
                  const void* b, void* y);

/// dx, dw and db, each when not null, from dy and, with an activation, y.
void small_linear_backward(const Context& context, const LinearGeometry& g, const void* x,
                           const void* w, const void* y, const void* dy, void* dx, void* dw,
                           void* db);

}  // namespace whisker::cuda
