// The libraries as they are loaded, which need not be those that the backend was built with.
// cuBLASLt's is compared where that is opened (core/cuda/gpu/cublas_lt.cpp), the driver's before
// this library is (core/cuda_library.cpp).
#pragma once

#include "core/backend.h"

#include <vector>

namespace whisker::cuda {

/// As cudnnGetVersion() counts. scripts/find_cuda.sh asks the same of headers.
inline constexpr size_t least_cudnn = 91400;

/// Throws device, with what is loaded and what is needed, when cuDNN is older than that or not
/// whole. Takes a millisecond: of cuDNN's parts only a small one is opened.
void check_cudnn_version();

/// Version and file of CUDA, cuDNN, cuBLASLt (opens it) and NCCL, and what is wrong with them.
std::vector<BackendProperty> library_versions();

}  // namespace whisker::cuda
