// Rows moved before a softmax, for attention.
#pragma once

#include "core/tensor/dtype_name.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// y (rows, columns) has the softmax of x (f32, bf16 or f16): rows whose largest number is far from
/// 0 are moved there, so that f32 still holds the log of their sum of exponentials beside the
/// largest.
void rows_near_zero(cudaStream_t stream, DType dtype, int64_t rows, int64_t columns, const void* x,
                    void* y);

}  // namespace whisker::cuda::kernels
