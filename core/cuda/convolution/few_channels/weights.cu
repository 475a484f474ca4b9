// dw (and db) of Note [Few-channel convolutions]: rows of the gemm are output channels, columns are
// taps, k runs over positions. A second kernel adds up the blocks' partial sums in order.
#include "core/cuda/convolution/add_slices.cuh"
#include "core/cuda/convolution/few_channels/dz.cuh"
#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/convolution/few_channels/few_channels_conv.h"
#include "core/cuda/convolution/few_channels/warp_split.cuh"
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <cstdint>

namespace whisker::cuda {
namespace {

/// Shared memory that a block may have on every GPU from compute capability 9.0 on.
constexpr size_t most_shared_bytes = 99 * 1024;
/// Most blocks with partial sums: two per multiprocessor of a large GPU.
constexpr int most_blocks = 264;

/// Adds the accumulators of the warps of one group, which split the positions, in order.
template <int Tiles>
__device__ void add_warps(int position_groups, int groups, float (&acc)[Tiles][4], float* memory) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int part = warp / groups, group = warp % groups;
  for (int half = position_groups / 2; half > 0; half /= 2) {
    __syncthreads();
    if (part >= half && part < 2 * half) {
      float* const to = memory + ((part - half) * groups + group) * Tiles * 4 * 32 + lane;
#pragma unroll
      for (int i = 0; i < 4 * Tiles; ++i) to[i * 32] = acc[i / 4][i % 4];
    }
    __syncthreads();
    if (part < half) {
      const float* const from = memory + (part * groups + group) * Tiles * 4 * 32 + lane;
#pragma unroll
      for (int i = 0; i < 4 * Tiles; ++i) acc[i / 4][i % 4] += from[i * 32];
    }
  }
}

/// sums (blocks, c_out kernel kernel C + c_out), the last of db. A block sums over many tiles of
/// the output, its warps over different positions, filters or kernel rows.
template <class T, class S, int Filters, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    few_channels_weights_kernel(ConvTiling p, const T* x, GradientOperands<T> from, bool wants_db,
                                float* all_sums) {
  wait_for_previous();
  extern __shared__ __align__(16) uint32_t memory[];
  using Split = RowSplit<T, S, Filters>;
  const auto block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  T* const dz = reinterpret_cast<T*>(memory);
  T* const patch = dz + dz_elements<Filters>(p);
  // Copied without registers where nothing is computed on the way.
  const bool copies_dz = sizeof(T) == 2 && !Pooled && !from.y && !wants_db;
  const int pitch = patch_pitch<S>(p.tile_columns);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int group = warp % Split::groups, part = warp / Split::groups;
  static_assert(Split::groups * Split::position_groups == block_warps);

  float acc[Split::tiles][4] = {};
  float db[pack_size<T>] = {};
  const int tiles = tile_count(p);
  for (int at = block; at < tiles; at += blocks) {
    const ConvTile tile = tile_of(p, at);
    __syncthreads();  // all threads have read the last tile
    if (copies_dz) copy_dz<T, Filters>(p, tile, from.dy, dz);
    fill_patch<S, T>(p, tile, x, patch, nullptr);
    if (copies_dz) {
      wait_for_copies();
    } else {
      fill_dz<T, Filters, Pooled>(p, tile, from, dz, db);
    }
    __syncthreads();
    const int steps_across = p.tile_columns / 16;
    const int steps = p.tile_rows * steps_across;
    for (int step = part; step < steps; step += Split::position_groups) {
      const int row = step / steps_across, column = step % steps_across * 16;
      Split::multiply(dz + (row * p.tile_columns + column) * dz_pitch<Filters>,
                      patch + row * S::stride * pitch + column * S::stride * S::channels, pitch,
                      group, acc);
    }
  }

  float* const scratch = reinterpret_cast<float*>(memory);
  add_warps(Split::position_groups, Split::groups, acc, scratch);
  const int weights = p.c_out * S::kernel * S::row_taps;
  float* const sums = all_sums + int64_t{block} * (weights + p.c_out);
  if (part == 0) {
#pragma unroll
    for (int i = 0; i < 4 * Split::tiles; ++i) {
      const int at = Split::weight_of(group, i);
      if (at >= 0 && at < weights) sums[at] = acc[i / 4][i % 4];
    }
  }
  // db: threads `packs` apart have the same channels.
  constexpr int width = pack_size<T>;
  constexpr int packs = Filters / width;
  __syncthreads();
  for (int c = 0; c < width; ++c) scratch[threadIdx.x * width + static_cast<unsigned>(c)] = db[c];
  __syncthreads();
  const int k = static_cast<int>(threadIdx.x);
  if (k < p.c_out) {
    float sum = 0;
    for (int thread = k / width; thread < block_threads; thread += packs) {
      sum += scratch[thread * width + k % width];
    }
    sums[weights + k] = sum;
  }
}

/// Bytes of a tile's dz and patch.
template <class T, class S, int Filters>
size_t tile_bytes(const ConvTiling& p) {
  const int patch = patch_rows<S>(p.tile_rows) * patch_pitch<S>(p.tile_columns);
  return sizeof(T) * static_cast<size_t>(dz_elements<Filters>(p) + patch);
}

/// The largest tiles of which two fit a multiprocessor of this GPU; one on compute capability 12.0,
/// with 99 KiB.
template <class T, class S, int Filters>
ConvTiling weights_positions(const Conv2dGeometry& g, const KernelSite& site) {
  const size_t most_bytes = site.capability >= 90 ? most_shared_bytes : 48 * 1024;
  int positions = 512;
  while (positions > 32 && tile_bytes<T, S, Filters>(conv_tiling(g, positions)) > most_bytes) {
    positions -= 32;
  }
  return conv_tiling(g, positions);
}

/// Bytes of a block's shared memory: the tile, later the sums of warps and of threads.
template <class T, class S, int Filters>
size_t weights_bytes(const ConvTiling& p) {
  using Split = RowSplit<T, S, Filters>;
  constexpr size_t warp_sums =
      sizeof(float) * 32 * 4 * Split::tiles * Split::groups * (Split::position_groups / 2);
  constexpr size_t thread_sums = sizeof(float) * pack_size<T> * block_threads;
  return std::max({tile_bytes<T, S, Filters>(p), warp_sums, thread_sums});
}

/// dw (weights) and db behind them, or null, from the sums of all blocks.
template <class T>
struct StoreGradients {
  int weights;
  T *dw, *db;
  __device__ void operator()(int at, float sum) const {
    if (at < weights) {
      dw[at] = from_f32<T>(sum);
    } else if (db) {
      db[at - weights] = from_f32<T>(sum);
    }
  }
};

}  // namespace

int64_t few_channels_weights_workspace_bytes(const ConvolutionRequest& request) {
  const Conv2dGeometry& g = request.geometry;
  const int64_t sums = g.c_out * (g.kernel_h * g.kernel_w * g.c + 1);
  return most_blocks * sums * static_cast<int64_t>(sizeof(float));
}

void few_channels_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                          const KernelSite& site, void* workspace) {
  const Conv2dGeometry& g = request.geometry;
  const auto weights = static_cast<int>(g.c_out * g.kernel_h * g.kernel_w * g.c);
  const void* const relu_result = g.activation.kind == Activation::relu ? operands.output : nullptr;
  visit_few_channels(request, [&]<class T, class S, int Filters, bool Pooled>() {
    const ConvTiling p = weights_positions<T, S, Filters>(g, site);
    const int blocks = std::min(tile_count(p), most_blocks);
    const GradientOperands<T> dz{.dy = static_cast<const T*>(operands.y),
                                 .y = static_cast<const T*>(relu_result),
                                 .argmax = static_cast<uint8_t*>(operands.argmax)};
    launch_few_channels(site, weights_bytes<T, S, Filters>(p), blocks,
                        few_channels_weights_kernel<T, S, Filters, Pooled>, p, operands.x, dz,
                        g.bias && operands.b, workspace);
    add_slices<float>(site, workspace, blocks, weights + g.c_out,
                      StoreGradients<T>{weights, static_cast<T*>(operands.w),
                                        static_cast<T*>(g.bias ? operands.b : nullptr)});
  });
}

}  // namespace whisker::cuda
