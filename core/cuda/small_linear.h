// The dense layer where launching costs more than computing: one kernel forwards, one backwards.
#pragma once

#include "core/geometry.h"

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// True where the kernels below beat the libraries' products by launching less: every extent fits
/// a few steps of one block.
inline bool is_small(const LinearGeometry& g) {
  constexpr int64_t most = 128;
  return g.rows <= most && g.in <= most && g.out <= most;
}

/// y (rows, out) = f(x (rows, in) w^T (out, in) + b (out)); b may be null.
void small_linear(const LinearGeometry& g, const void* x, const void* w, const void* b, void* y,
                  cudaStream_t stream);

/// dx, dw and db, each when not null, from dy and, with an activation, y.
void small_linear_backward(const LinearGeometry& g, const void* x, const void* w, const void* y,
                           const void* dy, void* dx, void* dw, void* db, cudaStream_t stream);

}  // namespace whisker::cuda
