// Convolutions: convolution.cpp, and with pooling conv_pool.cpp.
#pragma once

#include "core/backend/convolution.h"
#include "core/cuda/backend/algorithm_choices.h"
#include "core/cuda/backend/convolution_gradients.h"
#include "core/cuda/convolution/convolution.h"
#include "core/cuda/ops/cuda_kernels.h"

#include <functional>

namespace whisker::cuda {

/// What both families are made of.
class ConvolutionPasses : protected CudaKernels {
 public:
  using CudaKernels::CudaKernels;

 protected:
  /// A forward request, or its parts where no algorithm fuses them.
  void convolve_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// Computes the gradients: the weights' alone perhaps straight from dy, else unfused(). `weights`
  /// is the weights' request.
  void convolve_backward(const ConvolutionRequest& weights, const ConvolutionOperands& operands,
                         bool wants_dx, const std::function<void()>& unfused);
  /// The same from dz, by plain requests.
  void convolve_backward_from(void* dz, const ConvolutionRequest& weights,
                              const ConvolutionGradients& gradients);
};

}  // namespace whisker::cuda
