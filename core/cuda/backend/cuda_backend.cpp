// The backend's construction and options.
#include "core/cuda/backend/cuda_backend.h"

namespace whisker::cuda {

CudaBackend::CudaBackend(int device)
    : context_(device),
      allocator_(context_),
      staging_(context_),
      algorithms_(context_, allocator_, options_),
      conv_norm_(context_, allocator_, options_, algorithms_.convolutions(),
                 algorithms_.conv_norm()) {}
CudaBackend::~CudaBackend() = default;

void CudaBackend::set_options(const CudaOptions& options) {
  CudaOptions same_choices = options;
  same_choices.search_seconds = options_.search_seconds;
  same_choices.search_uses = options_.search_uses;
  const bool forget = same_choices != options_;
  options_ = options;
  algorithms_.options_changed(options_, forget);
}

}  // namespace whisker::cuda
