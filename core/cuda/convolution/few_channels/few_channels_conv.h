// Convolutions with few channels by own kernels: see Note [Few-channel convolutions] in
// few_channels_conv.cuh. First layers read images (1 or 3 channels); second layers have 3x3 filters
// over 32 channels and stride 1; both have 32 or 64 filters, first layers without pooling also any
// other multiple of 8 below 64. Besides plain passes, the forward pass
// may fuse bias, activation and 2x2 max-pooling; the weights' gradient may be computed from dy, the
// result and argmax, in second layers together with the input's.
#pragma once

#include "core/cuda/convolution/convolution.h"

#include <algorithm>
#include <string_view>

namespace whisker::cuda {

/// True for relu and leaky_relu, the activations that few-channel kernels apply.
constexpr bool is_leaky_relu(Activation kind) {
  return kind == Activation::relu || kind == Activation::leaky_relu;
}

inline constexpr std::string_view few_channels_name = "few_channels";

/// Shared memory that a block may have on every GPU from compute capability 8.0 on.
inline constexpr size_t few_channels_shared_bytes = 99 * 1024;
/// Least shared memory for both gradients of a second layer of 64 filters in f32. All others fit
/// few_channels_shared_bytes.
inline constexpr size_t few_channels_wide_bytes = 112 * 1024;

/// Most blocks with partial sums of a first layer's weight gradient: two per multiprocessor of a
/// large GPU.
inline constexpr int few_channels_most_blocks = 264;
/// Most such blocks of few_channels_gradients(): one per multiprocessor.
inline int few_channels_gradients_blocks(const ConvolutionSite& site) {
  return std::min(few_channels_most_blocks, site.multiprocessors);
}

/// Whether there is a few-channel kernel for `request`. None for other shapes, f32 without tf32,
/// GPUs before compute capability 8.0, and gradients other than a first layer's weights or both of
/// a second layer.
bool has_few_channels_kernel(const ConvolutionRequest& request, const ConvolutionSite& site);
/// That kernel, or null.
ConvolutionAlgorithmPointer few_channels_conv(const ConvolutionRequest& request,
                                              const ConvolutionSite& site);

// Its launchers; for any other `request` they call fail_few_channels().

[[noreturn]] void fail_few_channels(const ConvolutionRequest& request);

void few_channels_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const ConvolutionSite& site);

/// Bytes of the partial sums of `blocks` blocks.
int64_t few_channels_weights_workspace_bytes(const ConvolutionRequest& request, int blocks);
/// Adds up `sums`, the partial sums of `blocks` blocks, to dw and, with a bias, db.
void few_channels_add_blocks(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                             const ConvolutionSite& site, int blocks, const float* sums);
/// The weights' gradient of a first layer.
void few_channels_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const ConvolutionSite& site, void* workspace);

/// Both gradients of a second layer; the workspace holds the partial sums of
/// few_channels_gradients_blocks() blocks.
void few_channels_gradients(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                            const ConvolutionSite& site, void* workspace);

}  // namespace whisker::cuda
