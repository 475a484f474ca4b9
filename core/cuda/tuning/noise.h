// Random operands for timing: a GPU at its power limit computes faster on zeros than on numbers.
#pragma once

#include "core/dtype_name.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// y (count) of f32, bf16 or f16 is uniform in [-most, most], the same numbers at each call.
void noise(cudaStream_t stream, DType dtype, float most, void* y, int64_t count);

}  // namespace whisker::cuda::kernels
