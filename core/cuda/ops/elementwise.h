// The pointwise kernels. Pointers are device memory of `count` elements of `dtype`
// (f32, bf16 or f16 unless a comment says any); nothing is checked, all work is enqueued.
#pragma once

#include "core/backend/geometry.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// Each element of `element_bytes` gets the low bytes of `bits`.
void fill(cudaStream_t stream, uint64_t bits, size_t element_bytes, void* y, int64_t count);
/// Any dtypes.
void cast(cudaStream_t stream, DType from, const void* x, DType to, void* y, int64_t count);
void unary(cudaStream_t stream, const UnarySpec& spec, DType dtype, const void* x, void* y,
           int64_t count);
void binary(cudaStream_t stream, BinaryOp op, const BroadcastGeometry& g, DType dtype,
            const void* a, const void* b, void* y);
void accumulate(cudaStream_t stream, DType dtype, const void* term, void* sum, int64_t count);
/// Any dtype.
void compare(cudaStream_t stream, CompareOp op, const BroadcastGeometry& g, DType dtype,
             const void* a, const void* b, bool* y);
/// Any elements of 1, 2, 4 or 8 bytes.
void where(cudaStream_t stream, const bool* condition, size_t element_bytes, const void* a,
           const void* b, void* y, int64_t count);
void activation(cudaStream_t stream, ActivationSpec f, DType dtype, const void* x, void* y,
                int64_t count);
void activation_backward(cudaStream_t stream, ActivationSpec f, DType dtype, const void* saved,
                         const void* dy, void* dx, int64_t count);
void activation_second(cudaStream_t stream, ActivationSpec f, DType dtype, const void* saved,
                       const void* dy, const void* v, void* out, int64_t count);
void dropout(cudaStream_t stream, double rate, const RandomKey& key, DType dtype, const void* x,
             void* y, int64_t count);

}  // namespace whisker::cuda::kernels
