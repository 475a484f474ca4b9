// The backend's construction and options.
#include "core/cuda/cuda_backend.h"

namespace whisker::cuda {

CudaBackend::CudaBackend(int device) : context_(device), allocator_(context_) {}
CudaBackend::~CudaBackend() = default;

void CudaBackend::set_options(const CudaOptions& options) {
  options_ = options;
}

}  // namespace whisker::cuda
