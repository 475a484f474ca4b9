// y = f(x * w + b) of Note [Few-channel convolutions], optionally followed by 2x2 max-pooling.
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/convolution/few_channels/forward.cuh"
#include "core/cuda/convolution/few_channels/launch.cuh"
#include "core/cuda/device_code/pdl.cuh"

#include <algorithm>

namespace whisker::cuda {
namespace {

template <class T, class S, int Tiles, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    few_channels_forward_kernel(ConvTiling p, ForwardArguments<T> arguments) {
  wait_for_previous();
  extern __shared__ __align__(16) uint32_t memory[];
  few_channels_forward_block<T, S, Tiles, Pooled>(p, arguments, memory);
}

}  // namespace

void few_channels_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const KernelSite& site) {
  const auto launch = [&]<class T, class S, int Filters, bool Pooled>() {
    constexpr int tiles = Filters / 8;
    const ConvTiling p = conv_tiling(request.geometry, S::stride == 1 ? 1024 : 512);
    const ForwardArguments<T> arguments{.x = static_cast<const T*>(operands.x),
                                        .w = static_cast<const T*>(operands.w),
                                        .b = static_cast<const T*>(operands.b),
                                        .y = static_cast<T*>(operands.y),
                                        .argmax = static_cast<uint8_t*>(operands.argmax),
                                        .activation = leaky_relu_of(request.geometry.activation)};
    const size_t bytes = block_bytes<T, S, tiles>(p);
    const int blocks = std::min(tile_count(p), resident_blocks(site, bytes));
    launch_few_channels(site, bytes, blocks, few_channels_forward_kernel<T, S, tiles, Pooled>, p,
                        arguments);
  };
  visit_few_channels(request, launch);
}

}  // namespace whisker::cuda
