// y = f(x * w + b) of Note [Thin convolutions], optionally followed by 2x2 max-pooling: rows of
// the product are places, columns are output channels. Weights lie in shared memory as fragments.
// A warp takes groups of 16-place tiles; with pooling the four places of a window are the same
// accumulator registers of two tiles, so that a maximum needs no exchange. Each lane holds packs of
// neighbouring channels: the product's columns are permuted to that end.
#include "core/cuda/convolution/thin_convolution.h"
#include "core/cuda/convolution/thin_forward.cuh"
#include "core/cuda/convolution/thin_launch.cuh"
#include "core/cuda/gpu/check.h"

namespace whisker::cuda {
namespace {

constexpr int warps = block_threads / 32;
constexpr int blocks_per_multiprocessor = 2;

/// Pairs of 16-bit elements start at odd ones, too.
template <class T, class S>
constexpr bool shifted_copy = sizeof(T) == 2 && S::stride * S::channels % 2 == 1;

/// Block: 8 warps; grid: any number of blocks, which share the tiles of the output.
template <class T, class S, int Tiles, bool Pooled>
__global__ void __launch_bounds__(block_threads, blocks_per_multiprocessor)
    thin_forward_kernel(ThinPlaces p, ThinForwardArguments<T> arguments) {
  constexpr bool shift = shifted_copy<T, S>;
  constexpr int group = 16 / Tiles;  // 16-place tiles that a warp multiplies at once
  extern __shared__ __align__(16) uint32_t memory[];
  uint32_t* const fragments = memory;
  T* const patch =
      reinterpret_cast<T*>(fragments + S::kernel * S::units * b_registers<T> * Tiles * 32);
  const int pitch = patch_pitch<S>(p.tile_columns);
  T* const shifted = shift ? patch + patch_rows<S>(p.tile_rows) * pitch : nullptr;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;

  fill_weights<T, S, Tiles>(arguments.w, fragments);
  float bias[2 * Tiles] = {};  // of the lane's channels
  if (arguments.b) {
    constexpr int width = Channels<T>::width;
#pragma unroll
    for (int i = 0; i < 2 * Tiles; ++i) {
      bias[i] = to_f32(arguments.b[Channels<T>::first(i / width, t) + i % width]);
    }
  }
  // Where the taps of output (row, column) of the tile start, for this lane.
  const auto taps_of = [&](int row, int column) {
    const int element = S::stride * S::channels * column;
    const bool odd = shift && element % 2 != 0;
    const int start =
        row * S::stride * pitch + element - (odd ? 1 : 0) + (sizeof(T) == 4 ? t : 2 * t);
    return start + (odd ? patch_rows<S>(p.tile_rows) * pitch : 0);
  };

  const int tiles = p.n * p.tiles_down * p.tiles_across;
  for (int at = static_cast<int>(blockIdx.x); at < tiles; at += static_cast<int>(gridDim.x)) {
    const ThinTile tile = tile_of(p, at);
    __syncthreads();  // the patch of the last tile is read; the weights are there
    fill_patch<S>(p, tile, arguments.x, patch, shifted);
    __syncthreads();

    // Items are 16 places in a row or, pooled, 8 windows in a row (two 16-place tiles).
    constexpr int items_at_once = Pooled ? group / 2 : group;
    const int items_across = p.tile_columns / 16;
    const int items = (Pooled ? p.tile_rows / 2 : p.tile_rows) * items_across;
    for (int first = warp * items_at_once; first < items; first += warps * items_at_once) {
      int low[group], high[group];
#pragma unroll
      for (int m = 0; m < group; ++m) {
        const int item = min(first + (Pooled ? m / 2 : m), items - 1);
        const int row = item / items_across, column = item % items_across * 16;
        if constexpr (Pooled) {
          low[m] = taps_of(2 * row + m % 2, column + 2 * g);
          high[m] = taps_of(2 * row + m % 2, column + 2 * g + 1);
        } else {
          low[m] = taps_of(row, column + g);
          high[m] = taps_of(row, column + g + 8);
        }
      }
      float acc[group][Tiles][4] = {};
      multiply_places<T, S, Tiles, group>(patch, low, high, pitch, fragments, acc);

#pragma unroll
      for (int m = 0; m < group; m += Pooled ? 2 : 1) {
        const int item = first + (Pooled ? m / 2 : m);
        if (item >= items) break;
        const int row = item / items_across, column = item % items_across * 16;
        if constexpr (Pooled) {
          store_windows<T, Tiles>(p, tile.picture, tile.row / 2 + row,
                                  (tile.column + column) / 2 + g, acc[m], acc[m + 1], bias,
                                  arguments);
        } else {
          store_places<T, Tiles>(p, tile.picture, tile.row + row, tile.column + column + g, acc[m],
                                 bias, arguments);
        }
      }
    }
  }
}

template <class T, class S, int Tiles, bool Pooled>
void launch(const ConvolutionRequest& request, const ConvolutionOperands& operands,
            const ConvolutionSite& site) {
  const ThinPlaces p = thin_places(request.geometry, S::stride == 1 ? 1024 : 512);
  const ThinForwardArguments<T> arguments{.x = static_cast<const T*>(operands.x),
                                          .w = static_cast<const T*>(operands.w),
                                          .b = static_cast<const T*>(operands.b),
                                          .y = static_cast<T*>(operands.y),
                                          .marks = static_cast<uint8_t*>(operands.marks),
                                          .activation = bend_of(request.geometry.activation)};
  constexpr int fragments = S::kernel * S::units * b_registers<T> * Tiles * 32;
  const int patch = patch_rows<S>(p.tile_rows) * patch_pitch<S>(p.tile_columns);
  const size_t bytes = sizeof(uint32_t) * fragments +
                       sizeof(T) * static_cast<size_t>(patch) * (shifted_copy<T, S> ? 2 : 1);
  const int blocks = std::min(tile_count(p), blocks_per_multiprocessor * site.multiprocessors);
  thin_forward_kernel<T, S, Tiles, Pooled>
      <<<static_cast<unsigned>(blocks), block_threads, bytes, site.stream>>>(p, arguments);
  check_launch("thin convolution");
}

template <class T, class S, int Tiles>
void launch_either(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                   const ConvolutionSite& site) {
  if constexpr (S::stride == 1) {
    if (request.pooled) return launch<T, S, Tiles, true>(request, operands, site);
  }
  launch<T, S, Tiles, false>(request, operands, site);
}

}  // namespace

void thin_forward(const ConvolutionRequest& request, const ConvolutionOperands& operands,
                  const ConvolutionSite& site) {
  visit_real(request.geometry.dtype, [&]<class T>() {
    visit_thin_shape(request.geometry, [&]<class S>() {
      if constexpr (!compiled<T, S>) return;
      if (request.geometry.c_out == 32) {
        launch_either<T, S, 4>(request, operands, site);
      } else {
        launch_either<T, S, 8>(request, operands, site);
      }
    });
  });
}

}  // namespace whisker::cuda
