// Softmax and the losses. Losses are f32, one element; logits and gradients f32, bf16
// or f16.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/memory/allocator.h"

#include <cstdint>

#include <cuda_runtime_api.h>

namespace whisker::cuda::kernels {

void softmax(cudaStream_t stream, const SoftmaxGeometry& g, DType dtype, const void* x, void* y);
void softmax_backward(cudaStream_t stream, const SoftmaxGeometry& g, DType dtype, const void* y,
                      const void* dy, void* dx);

/// y (rows, columns) has the softmax of x: rows whose largest number is far from 0 are moved there,
/// so that f32 still holds the log of their sum of exponentials beside the largest.
void rows_near_zero(cudaStream_t stream, DType dtype, int64_t rows, int64_t columns, const void* x,
                    void* y);

/// Device memory of one cross entropy; null where the geometry has none.
struct CrossEntropy {
  const void* logits = nullptr;        // (rows, classes)
  const void* target = nullptr;        // i64 (rows), or (rows, classes) as the logits
  const void* class_weight = nullptr;  // (classes) as the logits, or null
  float* loss = nullptr;               // one element
  void* dlogits = nullptr;             // (rows, classes) as the logits, or null
};
void cross_entropy(Context& context, Allocator& allocator, const CrossEntropyGeometry& g,
                   DType dtype, const CrossEntropy& p);

/// Mean over `count` elements.
void binary_cross_entropy(Context& context, Allocator& allocator, DType dtype, const void* logits,
                          const void* target, int64_t count, float* loss, void* dlogits);

}  // namespace whisker::cuda::kernels
