// dw (and db) of Note [Few-channel convolutions]. A second kernel adds up the blocks' partial sums
// in order.
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/convolution/few_channels/launch.cuh"
#include "core/cuda/convolution/few_channels/weights.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

template <class T, class S, int Filters, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    few_channels_weights_kernel(ConvTiling p, WeightsArguments<T> arguments) {
  wait_for_previous();
  extern __shared__ __align__(16) uint32_t memory[];
  few_channels_weights_block<T, S, Filters, Pooled>(p, arguments, memory);
}

/// dw (weights) and db (channels) from the blocks' sums. Block: (32 sums, 8 blocks at a time).
template <class T>
__global__ void add_blocks_kernel(int blocks, int weights, int channels, const float* sums, T* dw,
                                  T* db) {
  wait_for_previous();
  __shared__ float partial[8][32];
  const int count = weights + channels;
  const int i = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  float sum = 0;
  if (i < count) {
    for (int block = static_cast<int>(threadIdx.y); block < blocks; block += 8) {
      sum += sums[int64_t{block} * count + i];
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= count) return;
  for (int part = 1; part < 8; ++part) sum += partial[part][threadIdx.x];
  if (i < weights) {
    dw[i] = from_f32<T>(sum);
  } else if (db) {
    db[i - weights] = from_f32<T>(sum);
  }
}

void add_blocks(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                const KernelSite& site, int blocks, const float* sums) {
  const Conv2dGeometry& g = request.geometry;
  const auto channels = static_cast<int>(g.c_out);
  const auto weights = static_cast<int>(g.c_out * g.kernel_h * g.kernel_w * g.c);
  visit_real(g.dtype, [&]<class T>() {
    launch_pdl({.stream = site.stream, .capability = site.capability},
               static_cast<unsigned>((weights + channels + 31) / 32), dim3(32, 8),
               add_blocks_kernel<T>, blocks, weights, channels, sums, static_cast<T*>(operands.w),
               static_cast<T*>(g.bias ? operands.b : nullptr));
  });
  check_launch("few-channel weight gradient's sum");
}

}  // namespace

int64_t few_channels_weights_workspace_bytes(const ConvolutionRequest& request) {
  const Conv2dGeometry& g = request.geometry;
  const int64_t sums = g.c_out * (g.kernel_h * g.kernel_w * g.c + 1);
  return few_channels_most_blocks * sums * static_cast<int64_t>(sizeof(float));
}

void few_channels_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const KernelSite& site, void* workspace) {
  auto* const sums = static_cast<float*>(workspace);
  visit_few_channels(request, [&]<class T, class S, int Filters, bool Pooled>() {
    const ConvTiling p = weights_positions<T, S, Filters>(request.geometry, site);
    const int blocks = std::min(tile_count(p), few_channels_most_blocks);
    launch_few_channels(site, weights_bytes<T, S, Filters>(p), blocks,
                        few_channels_weights_kernel<T, S, Filters, Pooled>, p,
                        weights_arguments<T>(request, operands, sums));
    add_blocks(request, operands, site, blocks, sums);
  });
}

}  // namespace whisker::cuda
