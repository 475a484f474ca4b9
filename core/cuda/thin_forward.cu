// y = f(x * w + b) of Note [Thin convolutions], optionally followed by 2x2 max-pooling: rows of
// the product are places, columns are output channels. Weights lie in shared memory as fragments.
// A warp takes groups of 16-place tiles; with pooling the four places of a window are the same
// accumulator registers of two tiles, so that a maximum needs no exchange. Each lane holds
// neighbouring channels: the product's columns are permuted to that end.
#include "core/cuda/activations.cuh"
#include "core/cuda/check.h"
#include "core/cuda/launch.h"
#include "core/cuda/thin_convolution.cuh"
#include "core/cuda/thin_convolution.h"
#include "core/cuda/thin_launch.cuh"

namespace whisker::cuda {
namespace {

constexpr int warps = block_threads / 32;
constexpr int blocks_per_multiprocessor = 2;

/// Pairs of 16-bit elements start at odd ones, too.
template <class T, class S>
constexpr bool shifted_copy = sizeof(T) == 2 && S::stride* S::channels % 2 == 1;

template <class T>
struct ThinForwardArguments {
  const T* x;      // (N,H,W,C)
  const T* w;      // (c_out, kernel, kernel, C)
  const T* b;      // (c_out) or null
  T* y;            // (N, h_out, w_out, c_out), or pooled: (N, h_out / 2, w_out / 2, c_out)
  uint8_t* marks;  // of the pooled y, or null
  ActivationSpec activation;
};

/// The output channel of column `column` (0..7) of tile `tile` of 8 channels, of Tiles.
template <int Tiles>
__device__ int channel_of(int tile, int column) {
  return column / 2 * (2 * Tiles) + tile * 2 + column % 2;
}

/// w as B fragments: [kernel row][unit][register][tile][lane].
template <class T, class S, int Tiles>
__device__ void fill_weights(const T* w, uint32_t* fragments) {
  constexpr int count = S::kernel * S::units * b_registers<T> * Tiles * 32;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += block_threads) {
    const int g = i % 32 / 4, t = i % 4;
    const int tile = i / 32 % Tiles;
    const int reg = i / (32 * Tiles) % b_registers<T>;
    const int unit = i / (32 * Tiles * b_registers<T>) % S::units;
    const int p = i / (32 * Tiles * b_registers<T> * S::units);
    const T* row = w + (channel_of<Tiles>(tile, g) * S::kernel + p) * S::row_taps;
    const auto tap = [&](int k) { return k < S::row_taps ? operand(row[k]) : from_f32<T>(0.0f); };
    if constexpr (sizeof(T) == 4) {
      fragments[i] = __float_as_uint(tap(8 * unit + t + 4 * reg));
    } else {
      const Pack<T, 2> pair{tap(8 * unit + 2 * t), tap(8 * unit + 2 * t + 1)};
      fragments[i] = reinterpret_cast<const uint32_t&>(pair);
    }
  }
}

/// One unit of A: the taps of a lane's place in tile row g (`low`) and g + 8 (`high`).
template <class T>
__device__ void load_places(const T* low, const T* high, uint32_t (&a)[a_registers<T>]) {
  if constexpr (sizeof(T) == 4) {
    a[0] = __float_as_uint(low[0]);
    a[1] = __float_as_uint(high[0]);
    a[2] = __float_as_uint(low[4]);
    a[3] = __float_as_uint(high[4]);
  } else {
    a[0] = *reinterpret_cast<const uint32_t*>(low);
    a[1] = *reinterpret_cast<const uint32_t*>(high);
  }
}

/// acc[m][tile] += patch (places of tile m) x weights, over all kernel rows.
template <class T, class S, int Tiles, int Group>
__device__ void multiply(const T* patch, const int (&low)[Group], const int (&high)[Group],
                         int pitch, const uint32_t* fragments, float (&acc)[Group][Tiles][4]) {
  constexpr int regs = b_registers<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int p = 0; p < S::kernel; ++p) {
    const T* row = patch + p * pitch;
#pragma unroll
    for (int unit = 0; unit < S::units; unit += sizeof(T) == 4 ? 1 : 2) {
      uint32_t b[2][Tiles][regs];
      const int together = sizeof(T) == 2 && unit + 1 < S::units ? 2 : 1;
#pragma unroll
      for (int u = 0; u < together; ++u) {
#pragma unroll
        for (int reg = 0; reg < regs; ++reg) {
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile) {
            b[u][tile][reg] =
                fragments[(((p * S::units + unit + u) * regs + reg) * Tiles + tile) * 32 + lane];
          }
        }
      }
#pragma unroll
      for (int m = 0; m < Group; ++m) {
        uint32_t a0[a_registers<T>], a1[a_registers<T>];
        load_places(row + low[m] + 8 * unit, row + high[m] + 8 * unit, a0);
        if (together == 2)
          load_places(row + low[m] + 8 * unit + 8, row + high[m] + 8 * unit + 8, a1);
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) {
          if constexpr (sizeof(T) == 2) {
            if (together == 2) {
              multiply_add_two<T>(acc[m][tile], a0, a1, b[0][tile][0], b[1][tile][0]);
              continue;
            }
          }
          multiply_add<T>(acc[m][tile], a0, b[0][tile]);
        }
      }
    }
  }
}

/// Stores a lane's 2 Tiles neighbouring channels.
template <class T, int Tiles>
__device__ void store_channels(const float (&values)[2 * Tiles], T* y) {
  constexpr int width = pack_size<T>;
#pragma unroll
  for (int first = 0; first < 2 * Tiles; first += width) {
    Pack<T, width> pack;
#pragma unroll
    for (int i = 0; i < width; ++i) pack.at[i] = from_f32<T>(values[first + i]);
    *reinterpret_cast<Pack<T, width>*>(y + first) = pack;
  }
}

/// Output (i, j) of a picture and, 8 columns on, the lane's second one, from one tile.
template <class T, int Tiles>
__device__ void store_places(const ThinPlaces& p, int picture, int i, int j,
                             const float (&acc)[Tiles][4], const float (&bias)[2 * Tiles],
                             const ThinForwardArguments<T>& arguments) {
  const int t = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = j + 8 * half;
    if (i >= p.h_out || column >= p.w_out) continue;
    float values[2 * Tiles];
#pragma unroll
    for (int c = 0; c < 2 * Tiles; ++c) {
      values[c] = activate(arguments.activation, acc[c / 2][2 * half + c % 2] + bias[c]);
    }
    const int64_t at = ((int64_t{picture} * p.h_out + i) * p.w_out + column) * p.c_out;
    store_channels<T, Tiles>(values, arguments.y + at + t * 2 * Tiles);
  }
}

/// Window (i, j) of a picture from the tiles of its two rows. The winner is sought before the
/// activation, which no supported one reorders.
template <class T, int Tiles>
__device__ void store_windows(const ThinPlaces& p, int picture, int i, int j,
                              const float (&upper)[Tiles][4], const float (&lower)[Tiles][4],
                              const float (&bias)[2 * Tiles],
                              const ThinForwardArguments<T>& arguments) {
  if (i >= p.h_out / 2 || j >= p.w_out / 2) return;
  const int t = static_cast<int>(threadIdx.x) % 4;
  float values[2 * Tiles];
  Pack<uint8_t, 2 * Tiles> marks;
#pragma unroll
  for (int c = 0; c < 2 * Tiles; ++c) {
    const float window[4] = {upper[c / 2][c % 2], upper[c / 2][2 + c % 2], lower[c / 2][c % 2],
                             lower[c / 2][2 + c % 2]};
    float largest = window[0];
    uint8_t place = 0;
#pragma unroll
    for (int k = 1; k < 4; ++k) {
      // A NaN beats everything but an earlier NaN; of equals the first wins.
      if (!(window[k] <= largest) && largest == largest) {
        largest = window[k];
        place = static_cast<uint8_t>(k);
      }
    }
    values[c] = activate(arguments.activation, largest + bias[c]);
    marks.at[c] = place;
  }
  const int64_t at = ((int64_t{picture} * (p.h_out / 2) + i) * (p.w_out / 2) + j) * p.c_out;
  store_channels<T, Tiles>(values, arguments.y + at + t * 2 * Tiles);
  if (arguments.marks) {
    *reinterpret_cast<Pack<uint8_t, 2 * Tiles>*>(arguments.marks + at + t * 2 * Tiles) = marks;
  }
}

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
  float bias[2 * Tiles] = {};  // of channels 2 Tiles t and on
  if (arguments.b) {
#pragma unroll
    for (int i = 0; i < 2 * Tiles; ++i) bias[i] = to_f32(arguments.b[t * 2 * Tiles + i]);
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
      multiply<T, S, Tiles, group>(patch, low, high, pitch, fragments, acc);

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
                                          .activation = request.geometry.activation};
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
      if (request.geometry.c_out == 32) {
        launch_either<T, S, 4>(request, operands, site);
      } else {
        launch_either<T, S, 8>(request, operands, site);
      }
    });
  });
}

}  // namespace whisker::cuda
