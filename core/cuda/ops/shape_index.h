// Strided copies and selection by index. Elements are of 1, 2, 4
// or 8 bytes, of any type; sums are of `dtype` f32, bf16 or f16.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/runtime/fault.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

/// y[walk] = x[walk]; elements of y outside the walk stay.
void strided_copy(cudaStream_t stream, CopyGeometry g, size_t element_bytes, const void* x,
                  void* y);
/// y[walk] += x[walk].
void strided_add(cudaStream_t stream, const CopyGeometry& g, DType dtype, const void* x, void* y);

// A pick outside the extent is reported as a fault; the result is 0 there.
void gather(cudaStream_t stream, const GatherGeometry& g, size_t element_bytes, const void* x,
            const int64_t* index, void* y, Fault* faults);
void gather_backward(cudaStream_t stream, const GatherGeometry& g, DType dtype,
                     const int64_t* index, const void* dy, void* dx);
void one_hot(cudaStream_t stream, size_t element_bytes, uint64_t one, const int64_t* index,
             int64_t picks, int64_t classes, void* y, Fault* faults);
/// y (picks, features) = rows of table (entries, features).
void embedding(cudaStream_t stream, size_t element_bytes, const void* table, int64_t entries,
               int64_t features, const int64_t* index, int64_t picks, void* y, Fault* faults);
/// dtable (entries, features), all of it, from dy (picks, features).
void embedding_backward(cudaStream_t stream, DType dtype, const int64_t* index, int64_t picks,
                        int64_t entries, int64_t features, const void* dy, void* dtable);

}  // namespace whisker::cuda::kernels
