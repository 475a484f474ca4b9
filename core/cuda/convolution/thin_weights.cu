// dw (and db) of Note [Thin convolutions]: rows of the product are output channels, columns are
// taps, k runs over places. Each block sums over many tiles of the output, its warps over different
// places or kernel rows; blocks leave their sums in the workspace and a second kernel adds those
// in order. dz is made while it is read: f'(y) dy, and with pooling only at the winners.
#include "core/cuda/convolution/thin_convolution.h"
#include "core/cuda/convolution/thin_launch.cuh"
#include "core/cuda/convolution/thin_weights.cuh"
#include "core/cuda/device/early_launch.cuh"
#include "core/cuda/gpu/check.h"

namespace whisker::cuda {
namespace {

constexpr int most_blocks = 264;  // that leave sums: two for each multiprocessor of large cards

template <class T, class S, int Channels, bool Pooled>
__global__ void __launch_bounds__(block_threads, 2)
    thin_weights_kernel(ThinPlaces p, ThinWeightsArguments<T> arguments) {
  wait_for_previous();
  using Share = Split<S, Channels>;
  constexpr int acc_tiles = 2 * Share::kernel_rows * S::units;
  extern __shared__ __align__(16) uint32_t memory[];
  T* const dz = reinterpret_cast<T*>(memory);
  T* const patch = dz + dz_elements<Channels>(p);
  const int pitch = patch_pitch<S>(p.tile_columns);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int group = warp % Share::groups, share = warp / Share::groups;
  static_assert(Share::groups * Share::place_groups == block_threads / 32);
  const int channel = group % Share::channel_groups * 32;
  const int kernel_row = group / Share::channel_groups * Share::kernel_rows;

  float acc[acc_tiles][4] = {};
  float db[pack_size<T>] = {};
  const int tiles = p.n * p.tiles_down * p.tiles_across;
  for (int at = static_cast<int>(blockIdx.x); at < tiles; at += static_cast<int>(gridDim.x)) {
    const ThinTile tile = tile_of(p, at);
    __syncthreads();  // the last tile is read
    fill_patch<S>(p, tile, arguments.x, patch, static_cast<T*>(nullptr));
    if (sizeof(T) == 2 && !Pooled && !arguments.y && !arguments.wants_db) {
      copy_gradient<T, Channels>(p, tile, arguments.dy, dz);
    } else {
      fill_gradient<T, Channels, Pooled>(p, tile, arguments, dz, db);
    }
    __syncthreads();
    const int steps_across = p.tile_columns / 16;
    const int steps = p.tile_rows * steps_across;
    for (int step = share; step < steps; step += Share::place_groups) {
      const int row = step / steps_across, column = step % steps_across * 16;
      multiply_gradient<T, S, Channels>(
          dz + (row * p.tile_columns + column) * dz_pitch<Channels>,
          patch + row * S::stride * pitch + column * S::stride * S::channels, pitch, channel,
          kernel_row, acc);
    }
  }

  float* const scratch = reinterpret_cast<float*>(memory);
  add_warps(Share::place_groups, Share::groups, acc, scratch);
  constexpr int weights = Channels * S::kernel * S::row_taps;
  float* const sums = arguments.sums + int64_t{blockIdx.x} * (weights + Channels);
  if (share == 0) {
    const int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4 * acc_tiles; ++i) {
      const int unit = i / 4 % S::units;
      const int row = kernel_row + i / 4 / S::units % Share::kernel_rows;
      const int m = i / 4 / S::units / Share::kernel_rows;
      const int tap = 8 * unit + 2 * t + i % 2;
      const int k = channel + 16 * m + g + i / 2 % 2 * 8;
      if (row < S::kernel && tap < S::row_taps) {
        sums[(k * S::kernel + row) * S::row_taps + tap] = acc[i / 4][i % 4];
      }
    }
  }
  // db: threads with the same channels are packs apart.
  constexpr int width = pack_size<T>;
  constexpr int packs = Channels / width;
  __syncthreads();
  for (int c = 0; c < width; ++c) scratch[threadIdx.x * width + static_cast<unsigned>(c)] = db[c];
  __syncthreads();
  if (threadIdx.x < Channels) {
    const int k = static_cast<int>(threadIdx.x);
    float sum = 0;
    for (int thread = k / width; thread < block_threads; thread += packs) {
      sum += scratch[thread * width + k % width];
    }
    sums[weights + k] = sum;
  }
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

/// Bytes of a tile's dz and patch.
template <class T, class S, int Channels>
size_t tile_bytes(const ThinPlaces& p) {
  const int patch = patch_rows<S>(p.tile_rows) * patch_pitch<S>(p.tile_columns);
  return sizeof(T) * static_cast<size_t>(dz_elements<Channels>(p) + patch);
}

/// The largest tiles of which two fit a multiprocessor of this kind; on cards of 12.0 one, which
/// has 99 KiB.
template <class T, class S, int Channels>
ThinPlaces weights_places(const Conv2dGeometry& g, const ConvolutionSite& site) {
  const size_t most_bytes = site.capability >= 90 ? 99 * 1024 : 48 * 1024;
  int places = 512;
  while (places > 32 && tile_bytes<T, S, Channels>(thin_places(g, places)) > most_bytes) {
    places -= 32;
  }
  return thin_places(g, places);
}

template <class T, class S, int Channels, bool Pooled>
void launch(const ConvolutionRequest& request, const ConvolutionOperands& operands,
            const ConvolutionSite& site, float* sums) {
  using Share = Split<S, Channels>;
  const Conv2dGeometry& g = request.geometry;
  const ThinPlaces p = weights_places<T, S, Channels>(g, site);
  T* const db = g.bias ? static_cast<T*>(operands.b) : nullptr;
  const ThinWeightsArguments<T> arguments{
      .x = static_cast<const T*>(operands.x),
      .dy = static_cast<const T*>(operands.y),
      .y = has_bend(g.activation.kind) ? static_cast<const T*>(operands.output) : nullptr,
      .marks = static_cast<const uint8_t*>(operands.marks),
      .activation = bend_of(g.activation),
      .wants_db = db != nullptr,
      .sums = sums};
  constexpr size_t warp_sums = sizeof(float) * 32 * 4 * 2 * Share::kernel_rows * S::units *
                               Share::groups * (Share::place_groups / 2);
  constexpr size_t thread_sums = sizeof(float) * pack_size<T> * block_threads;
  const size_t bytes = std::max({tile_bytes<T, S, Channels>(p), warp_sums, thread_sums});
  const int blocks = std::min(tile_count(p), most_blocks);
  const auto kernel = thin_weights_kernel<T, S, Channels, Pooled>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "asking for shared memory");
  LaunchPlace place{.stream = site.stream, .capability = site.capability, .shared_bytes = bytes};
  launch_early(place, static_cast<unsigned>(blocks), block_threads, kernel, p, arguments);
  check_launch("thin weight gradient");
  constexpr int weights = Channels * S::kernel * S::row_taps;
  place.shared_bytes = 0;
  launch_early(place, static_cast<unsigned>((weights + Channels + 31) / 32), dim3(32, 8),
               add_blocks_kernel<T>, blocks, weights, Channels, sums, static_cast<T*>(operands.w),
               db);
  check_launch("thin weight gradient's sum");
}

template <class T, class S, int Channels>
void launch_either(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                   const ConvolutionSite& site, float* sums) {
  if constexpr (S::stride == 1) {
    if (request.pooled) return launch<T, S, Channels, true>(request, operands, site, sums);
  }
  launch<T, S, Channels, false>(request, operands, site, sums);
}

}  // namespace

int64_t thin_weights_workspace_bytes(const ConvolutionRequest& request) {
  const Conv2dGeometry& g = request.geometry;
  const int64_t sums = g.c_out * (g.kernel_h * g.kernel_w * g.c + 1);
  return most_blocks * sums * static_cast<int64_t>(sizeof(float));
}

void thin_weights(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site, void* workspace) {
  visit_real(request.geometry.dtype, [&]<class T>() {
    visit_thin_shape(request.geometry, [&]<class S>() {
      if constexpr (!compiled<T, S>) return;
      auto* const sums = static_cast<float*>(workspace);
      if (request.geometry.c_out == 32) {
        launch_either<T, S, 32>(request, operands, site, sums);
      } else {
        launch_either<T, S, 64>(request, operands, site, sums);
      }
    });
  });
}

}  // namespace whisker::cuda
