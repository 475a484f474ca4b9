// Both gradients of a second layer (Note [Few-channel convolutions]) from dy, the result
// and argmax: dz is computed where it is read, by two kinds of blocks in one kernel.
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/convolution/few_channels/forward.cuh"
#include "core/cuda/convolution/few_channels/launch.cuh"
#include "core/cuda/convolution/few_channels/weights.cuh"
#include "core/cuda/device_code/pdl.cuh"

#include <algorithm>
#include <utility>

namespace whisker::cuda {
namespace {

/// The shape of S's input gradient.
template <class S, int Filters>
using Turned = ConvShape<Filters, S::kernel, 1>;

/// The first `weight_blocks` blocks compute the weights' gradient, the others the input's.
template <class T, class S, int Filters, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    few_channels_gradients_kernel(ConvTiling of_weights, WeightsArguments<T> weights,
                                  int weight_blocks, ConvTiling of_input,
                                  ForwardArguments<T> input) {
  wait_for_previous();
  extern __shared__ __align__(16) uint32_t memory[];
  const int block = static_cast<int>(blockIdx.x);
  if (block < weight_blocks) {
    few_channels_weights_block<T, S, Filters, Pooled>(of_weights, weights, memory, block,
                                                      weight_blocks);
  } else {
    few_channels_forward_block<T, Turned<S, Filters>, S::channels / 8, false>(
        of_input, GradientSource<T, Pooled>{weights.dz}, input, memory, block - weight_blocks,
        static_cast<int>(gridDim.x) - weight_blocks);
  }
}

/// The forward convolution from dz to dx, over all taps in reverse.
Conv2dGeometry turned(Conv2dGeometry g) {
  std::swap(g.h, g.h_out);
  std::swap(g.w, g.w_out);
  std::swap(g.c, g.c_out);
  g.pad_top = g.kernel_h - 1 - g.pad_top;
  g.pad_left = g.kernel_w - 1 - g.pad_left;
  return g;
}

template <class T, class S, int Filters, bool Pooled>
void launch(const ConvolutionRequest& request, const ConvolutionOperands& operands,
            const ConvolutionSite& site, float* sums) {
  using Input = Turned<S, Filters>;
  constexpr int tiles = S::channels / 8;
  const ConvTiling of_weights = weights_positions<T, S, Filters>(request.geometry, site);
  const ConvTiling of_input = forward_positions<T, Input, tiles>(turned(request.geometry), site);
  const auto weights = weights_arguments<T>(request, operands, sums);
  const ForwardArguments<T> input{.w = static_cast<const T*>(operands.filter),
                                  .b = nullptr,
                                  .y = static_cast<T*>(operands.dx),
                                  .argmax = nullptr,
                                  .activation = leaky_relu_of({})};
  const size_t bytes =
      std::max(weights_bytes<T, S, Filters>(of_weights), block_bytes<T, Input, tiles>(of_input));
  const int each =
      std::clamp(resident_blocks(site, bytes) / 2, 1, few_channels_gradients_blocks(site));
  const int weight_blocks = std::min(tile_count(of_weights), each);
  const int input_blocks = std::min(tile_count(of_input), each);
  launch_few_channels(site, bytes, weight_blocks + input_blocks,
                      few_channels_gradients_kernel<T, S, Filters, Pooled>, of_weights, weights,
                      weight_blocks, of_input, input);
  few_channels_add_blocks(request, operands, site, weight_blocks, sums);
}

}  // namespace

void few_channels_gradients(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                            const ConvolutionSite& site, void* workspace) {
  auto* const sums = static_cast<float*>(workspace);
  visit_few_channels(second_layers, request, [&]<class T, class S, int Filters, bool Pooled>() {
    launch<T, S, Filters, Pooled>(request, operands, site, sums);
  });
}

}  // namespace whisker::cuda
