// The backend's construction and options.
#include "core/cuda/backend/cuda_backend.h"

namespace whisker::cuda {

CudaBackend::CudaBackend(int index)
    : Backend(families_),
      device_(index),
      families_{.elementwise = make_elementwise(device_),
                .shape_index = make_shape_index(device_),
                .reduction = make_reduction(device_),
                .gemm = make_gemm(device_),
                .convolution = make_convolution(device_),
                .pooling = make_pooling(device_),
                .normalization = make_normalization(device_),
                .recurrent = make_recurrent(device_),
                .losses = make_losses(device_),
                .training_step = make_training_step(device_),
                .attention = make_attention(device_),
                .conv_pool = make_conv_pool(device_),
                .fused_conv_norm = make_fused_conv_norm(device_),
                .fused_add_norms = make_fused_add_norms(device_),
                .fused_norm_pool = make_fused_norm_pool(device_)} {}
CudaBackend::~CudaBackend() = default;

void CudaBackend::set_options(const CudaOptions& options) {
  CudaOptions same_choices = options;
  same_choices.search_seconds = device_.options.search_seconds;
  same_choices.search_uses = device_.options.search_uses;
  const bool forget = same_choices != device_.options;
  device_.options = options;
  device_.algorithms.options_changed(device_.options, forget);
}

}  // namespace whisker::cuda
