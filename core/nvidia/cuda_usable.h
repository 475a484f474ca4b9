// Whether the GPUs can be used. The driver's own report is in core/nvidia/cuda_library.h; this also
// starts the GPUs' backends.
#pragma once

#include "core/backend/backend.h"

#include <string>
#include <vector>

namespace whisker {

struct CudaFacts;

/// Starts the backend of GPU `device`. Returns why it cannot be used, with a remedy, or "".
std::string why_no_cuda(Device device);

/// Whether a program that uses no GPU should report why: the driver reports GPUs or failed to
/// start.
bool cuda_is_expected(const CudaFacts& facts);

/// The driver's library as it was loaded; "" when it was not.
std::string cuda_driver_file();

/// Versions and loaded files of the driver, CUDA, cuDNN, cuBLASLt and NCCL, and what is wrong with
/// them; of the driver alone where libwhisker_cuda.so cannot be opened. Needs no GPU.
std::vector<BackendProperty> cuda_libraries();

}  // namespace whisker
