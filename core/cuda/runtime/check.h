// Errors of the CUDA runtime and of the libraries, as whisker::Error of kind device. A lost device
// (a trap, a bad address) fails every later call; the message says that the process must end.
#pragma once

#include "core/tensor/dtype_name.h"

#include <cuda_runtime_api.h>

namespace whisker::cuda {

[[noreturn]] void fail_cuda(cudaError_t error, const char* what);

/// Throws device, naming `what` was attempted, unless `error` is success; OutOfMemory where the
/// driver has none left.
inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail_cuda(error, what);
}

/// Whether the stream's device is lost.
bool is_lost(cudaStream_t stream);

/// After a kernel launch: throws device, naming the kernel, when it could not be launched.
inline void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

/// Throws internal: no kernel was built for elements of `dtype`.
[[noreturn]] void fail_dtype(DType dtype);

}  // namespace whisker::cuda
