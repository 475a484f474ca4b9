// Convolutions of pictures with one or three channels on own kernels: see Note [Thin convolutions]
// in thin_convolution.cuh. Beside plain passes they take an epilogue: bias, activation and 2x2
// max-pooling forwards; backwards, the weight gradient straight from dy, the result and the marks.
#pragma once

#include "core/cuda/convolution/convolution.h"

namespace whisker::cuda {

/// True of the activations that thin kernels apply, which are lines with a bend at 0.
constexpr bool has_bend(Activation kind) {
  return kind == Activation::relu || kind == Activation::leaky_relu;
}

inline constexpr std::string_view thin_name = "thin";

/// The thin kernel for `request`; null where there is none: other shapes, f32 without tf32, cards
/// before compute capability 8.0, input gradients.
ConvolutionAlgorithmPointer thin_convolution(const ConvolutionRequest& request, int capability);

// The launchers behind it; `request` must be one of its.

void thin_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site);

int64_t thin_weights_workspace_bytes(const ConvolutionRequest& request);
void thin_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site, void* workspace);

}  // namespace whisker::cuda
