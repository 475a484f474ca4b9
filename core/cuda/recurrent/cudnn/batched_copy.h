// Many copies of device memory by one kernel: parameters of recurrent layers into the one block
// that cuDNN reads, and gradients out of it.
#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime_api.h>

namespace whisker::cuda {

/// A tensor (or part of one) and its position in the packed block; `bytes` is even.
struct Copy {
  char* unpacked = nullptr;
  char* packed = nullptr;
  int64_t bytes = 0;
};

enum class CopyDirection { pack, unpack };

/// Enqueues every copy, into the packed block or out of it.
void batched_copy(std::span<const Copy> copies, CopyDirection direction, cudaStream_t stream);

}  // namespace whisker::cuda
