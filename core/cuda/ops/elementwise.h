// The pointwise kernels that recurrent layers call within their own memory: `count` elements of
// `dtype` (f32, bf16 or f16).
#pragma once

#include "core/backend/geometry.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// sum += term.
void accumulate(cudaStream_t stream, DType dtype, const void* term, void* sum, int64_t count);
/// ElementwiseKernels::dropout.
void dropout(cudaStream_t stream, double rate, const RandomKey& key, DType dtype, const void* x,
             void* y, int64_t count);

}  // namespace whisker::cuda::kernels
