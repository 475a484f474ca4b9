// The backend's construction and options.
#include "core/cuda/cuda_backend.h"

namespace whisker::cuda {

CudaBackend::CudaBackend(int device)
    : context_(device),
      allocator_(context_),
      staging_(context_),
      plans_(context_, allocator_, options_),
      chains_(context_, allocator_, options_, plans_.convolutions(), plans_.chains()) {}
CudaBackend::~CudaBackend() = default;

void CudaBackend::set_options(const CudaOptions& options) {
  CudaOptions same_choices = options;
  same_choices.search_seconds = options_.search_seconds;
  same_choices.search_uses = options_.search_uses;
  const bool forget = same_choices != options_;
  options_ = options;
  plans_.options_changed(options_, forget);
}

}  // namespace whisker::cuda
