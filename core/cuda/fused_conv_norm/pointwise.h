// A batch norm with its activation and a pointwise convolution behind it, for the convolutions of
// pointwise_takes_norm() (core/backend/fused_ops.h) on GPUs from compute capability 8.0 on. Sums
// are in a fixed order: results are deterministic.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/convolution/image_norm.h"
#include "core/cuda/memory/allocator.h"

namespace whisker::cuda {

/// Operands of all passes, 16-byte aligned.
struct PointwiseOperands {
  const void* x;  // (N, H, W, C), what the batch norm reads
  const void* w;  // (C_out, C)
  ImageNorm norm;
};

/// y (N, H, W, C_out), and its sums, f32 (3, C_out): see SummedOutput.
void pointwise_forward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                       const PointwiseOperands& in, void* y, float* sums);

/// Null: not wanted.
struct PointwiseGradients {
  const void* dy;         // (N, H, W, C_out)
  void* dx;               // (N, H, W, C), 16-byte aligned
  void* dw;               // (C_out, C)
  float *dgamma, *dbeta;  // (C)
};
void pointwise_backward(Context& context, Allocator& allocator, const Conv2dGeometry& g,
                        const PointwiseOperands& in, const PointwiseGradients& out);

}  // namespace whisker::cuda
