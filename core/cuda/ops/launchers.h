// Kernels of this folder that other folders launch within their own memory. Rows are those of
// channels of `dtype`: f32, bf16 or f16; sums are f32 in a fixed order. The namespace kernels keeps
// launchers apart from methods of families with the same name.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/memory/allocator.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

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

/// x (N,H,W,C) to y (N, h_out, w_out, C); `argmax` like y, or null. Max-pooling keeps the argmax of
/// each window for backward: the index of the largest element, row by row within its window, one
/// byte per element of y (four for windows over 255 elements). A window outside the image has the
/// largest index. Ties go to the first element; NaN is larger than everything.
void pool2d_forward(const Context& context, const Pool2dGeometry& g, const void* x, void* y,
                    void* argmax);
/// dx (N,H,W,C) from dy and `argmax` (null for averages).
void pool2d_backward(const Context& context, const Pool2dGeometry& g, const void* argmax,
                     const void* dy, void* dx);

namespace kernels {

/// sum += term, `count` elements.
void accumulate(cudaStream_t stream, DType dtype, const void* term, void* sum, int64_t count);
/// ElementwiseKernels::dropout.
void dropout(cudaStream_t stream, double rate, const RandomKey& key, DType dtype, const void* x,
             void* y, int64_t count);
/// y (rows, columns) has the softmax of x: rows whose largest number is far from 0 are moved there,
/// so that f32 still holds the log of their sum of exponentials beside the largest.
void rows_near_zero(cudaStream_t stream, DType dtype, int64_t rows, int64_t columns, const void* x,
                    void* y);

}  // namespace kernels
}  // namespace whisker::cuda
