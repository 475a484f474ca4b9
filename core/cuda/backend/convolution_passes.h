// Convolutions: convolution.cpp, and with pooling conv_pool.cpp.
#pragma once

#include "core/backend/convolution.h"
#include "core/cuda/backend/cuda_kernels.h"
#include "core/cuda/convolution/convolution.h"

#include <functional>

namespace whisker::cuda {

/// What both families are made of.
class ConvolutionPasses : protected CudaKernels {
 public:
  using CudaKernels::CudaKernels;

 protected:
  /// A forward request, or its parts where no algorithm fuses them.
  void convolve_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands);
  /// Computes w and dx of the operands, where not null: one kernel straight from dy where there is
  /// one, else unfused(). `weights` is the weights' request.
  void convolve_backward(ConvolutionRequest weights, const ConvolutionOperands& operands,
                         const std::function<void()>& unfused);
  /// The same from dz, by plain requests.
  void convolve_backward_from(void* dz, const ConvolutionRequest& weights,
                              const ConvolutionOperands& operands);
};

}  // namespace whisker::cuda
