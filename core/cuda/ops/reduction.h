// Reductions over axes, of f32, bf16 or f16.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/memory/allocator.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// y (g.out_count) = op over the reduced axes of x. Reduced axes that are not adjacent take a pass
/// each; what passes and blocks hand on is in f32 memory from `allocator`.
void reduce(Context& context, Allocator& allocator, ReduceOp op, const ReduceGeometry& g,
            DType dtype, const void* x, void* y);
/// y (g.out_count) = the sums of a * b over the reduced axes, in the same passes.
void sum_products(Context& context, Allocator& allocator, const ReduceGeometry& g, DType dtype,
                  const void* a, const void* b, void* y);
/// First position of the largest element along the middle axis; a NaN counts as the largest.
void argmax(cudaStream_t stream, const SoftmaxGeometry& g, DType dtype, const void* x, int64_t* y);

}  // namespace whisker::cuda::kernels
