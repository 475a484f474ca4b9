// Whether GPUs that are there can be used, beyond what the driver says of itself
// (core/cuda_library.h): their backends are started to find out.
#pragma once

#include "core/backend.h"

#include <string>
#include <vector>

namespace whisker {

struct CudaFacts;

/// Why `device`, a GPU, cannot be used, with a remedy; "" when it can, having started its backend.
std::string why_no_cuda(Device device);

/// The driver offers GPUs, or broke before it could say: whoever computes elsewhere should know
/// why.
bool cuda_is_expected(const CudaFacts& facts);

/// The driver's library as it was loaded; "" when it was not.
std::string cuda_driver_file();

/// Versions and loaded files of the driver, CUDA, cuDNN, cuBLASLt and NCCL, and what is wrong with
/// them; of the driver alone where libwhisker_cuda.so cannot be opened. Needs no GPU.
std::vector<BackendProperty> cuda_libraries();

}  // namespace whisker
