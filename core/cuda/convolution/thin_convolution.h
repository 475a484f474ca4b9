// Convolutions with few channels on own kernels: see Note [Thin convolutions] in
// thin_convolution.cuh. First layers are those of pictures (1 or 3 channels), second layers those
// of 3x3 filters over 32 channels with a stride of 1; both have 32 or 64 filters. Beside plain
// passes they take an epilogue: bias, activation and 2x2 max-pooling forwards; backwards, the
// weights' gradient straight from dy, the result and the marks, of second layers with the input's.
#pragma once

#include "core/cuda/convolution/convolution.h"

#include <algorithm>
#include <string_view>

namespace whisker::cuda {

/// True of the activations that thin kernels apply, which are lines with a bend at 0.
constexpr bool has_bend(Activation kind) {
  return kind == Activation::relu || kind == Activation::leaky_relu;
}

inline constexpr std::string_view thin_name = "thin";

/// Bytes of shared memory that a block may have on every card from compute capability 8.0 on.
inline constexpr size_t thin_shared_bytes = 99 * 1024;
/// Bytes that both gradients of a second layer of 64 filters take at least in f32. All others find
/// a tile for thin_shared_bytes.
inline constexpr size_t thin_wide_bytes = 112 * 1024;

/// Most blocks that leave sums of a first layer's weight gradients: two for each multiprocessor of
/// large cards.
inline constexpr int thin_most_blocks = 264;
/// Most blocks of thin_gradients() that leave such sums: one for each multiprocessor.
inline int thin_gradients_blocks(const ConvolutionSite& site) {
  return std::min(thin_most_blocks, site.multiprocessors);
}

/// Whether there is a thin kernel for `request`: not for other shapes, f32 without tf32, cards
/// before compute capability 8.0, gradients other than those of a first layer's weights and both of
/// a second layer.
bool has_thin(const ConvolutionRequest& request, const ConvolutionSite& site);
/// That kernel, or null.
ConvolutionAlgorithmPointer thin_convolution(const ConvolutionRequest& request,
                                             const ConvolutionSite& site);

// The launchers behind it; `request` must be one of its, else they end in fail_thin().

[[noreturn]] void fail_thin(const ConvolutionRequest& request);

void thin_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site);

/// What `blocks` blocks leave.
int64_t thin_weights_workspace_bytes(const ConvolutionRequest& request, int blocks);
/// dw and, with a bias, db from what they left in `sums`.
void thin_add_blocks(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                     const ConvolutionSite& site, int blocks, const float* sums);
/// Of a first layer.
void thin_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site, void* workspace);

/// Both gradients of a second layer; the workspace is that of the weights', of
/// thin_gradients_blocks().
void thin_gradients(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                    const ConvolutionSite& site, void* workspace);

}  // namespace whisker::cuda
