// Epilogues of convolution and dense layers and their gradients, on rows of channels:
// y = f(z + b + residual), and dz = f'(y) dy with db = sums of dz per channel, in f32 and a fixed
// order.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/memory/allocator.h"

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// Rows of channels of `dtype`.
struct RowsGeometry {
  int64_t rows = 0, channels = 0;
  DType dtype = DType::f32;
};

/// y (rows, channels) = f(y + b (channels) + residual (rows, channels)), in place; b and residual
/// may be null.
void bias_activation(const RowsGeometry& g, ActivationSpec f, const void* b, const void* residual,
                     void* y, cudaStream_t stream);

/// dz = f'(y) dy and db = sum of dz over the rows, each when not null; y is not read when f is
/// none.
void output_gradient(const RowsGeometry& g, ActivationSpec f, const void* y, const void* dy,
                     void* dz, void* db, Context& context, Allocator& allocator);

/// dz and db behind max-pooling of whole 2x2 windows with stride 2: dz (N,H,W,C) is before the
/// pooling, y, dy and `argmax` (N, h_out, w_out, C) behind it. Below 2^32 windows.
void window_gradient(const Pool2dGeometry& p, ActivationSpec f, const void* y, const void* dy,
                     const void* argmax, void* dz, void* db, Context& context,
                     Allocator& allocator);

}  // namespace whisker::cuda
