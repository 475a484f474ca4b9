// y = f(x * w + b) of Note [Thin convolutions], optionally followed by 2x2 max-pooling.
#include "core/cuda/convolution/thin_convolution.h"
#include "core/cuda/convolution/thin_forward.cuh"
#include "core/cuda/convolution/thin_launch.cuh"
#include "core/cuda/device/early_launch.cuh"

#include <algorithm>

namespace whisker::cuda {
namespace {

template <class T, class S, int Tiles, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    thin_forward_kernel(ThinPlaces p, PictureSource<T> source, ThinForwardArguments<T> arguments) {
  wait_for_previous();
  extern __shared__ __align__(16) uint32_t memory[];
  thin_forward_block<T, S, Tiles, Pooled>(
      p, source, arguments, memory, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x));
}

}  // namespace

void thin_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site) {
  const auto launch = [&]<class T, class S, int Filters, bool Pooled>() {
    constexpr int tiles = Filters / 8;
    const ThinPlaces p = forward_places<T, S, tiles>(request.geometry, site);
    const PictureSource<T> source{static_cast<const T*>(operands.x)};
    const ThinForwardArguments<T> arguments{.w = static_cast<const T*>(operands.w),
                                            .b = static_cast<const T*>(operands.b),
                                            .y = static_cast<T*>(operands.y),
                                            .marks = static_cast<uint8_t*>(operands.marks),
                                            .activation = bend_of(request.geometry.activation)};
    const size_t bytes = block_bytes<T, S, tiles>(p);
    const int blocks = std::min(tile_count(p), resident_blocks(site, bytes));
    launch_thin(site, bytes, blocks, thin_forward_kernel<T, S, tiles, Pooled>, p, source,
                arguments);
  };
  visit_thin(first_layers + second_layers, request, launch);
}

}  // namespace whisker::cuda
