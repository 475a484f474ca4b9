// What the persistent recurrent kernels share.
//
// Note [Persistent recurrence]
// A step of a recurrent layer is a product of few rows (the batch) with weights that never change,
// so a launch per step reads all weights again and waits for the launch. Here one kernel takes all
// steps. A cell's hidden units are dealt out to blocks, one per multiprocessor, which keep their
// rows of the weights in shared memory; a block needs the whole state of its sequences after the
// step before, of which it computed one slice. Slices are exchanged through L2: a block stores its
// part of y (backward: of the gates' gradients), then raises the counter of its cell and tile of
// sequences; who reads waits until the counter says that all slices are there. Layers run as a
// wavefront: a block of the layer above waits for the step of the layer below in the same way, so
// L layers of T steps take T + L - 1 turns. All blocks must be on the GPU at once (a cooperative
// launch), and addresses are written once, so there is nothing to wait for but the counters.
// The idea of weights that stay on the chip: Diamos et al., "Persistent RNNs", ICML 2016.
//
// Note [Shares of a product]
// The warps of a block share a product along k in pieces of 32: each multiplies all rows with all
// columns over its pieces, and the sums meet in shared memory. So rows are read once, straight from
// L2 into fragments: lane (g, t) takes elements 8t .. 8t + 7 of a piece for row g. That permutes k
// within the piece as core/cuda/mma.cuh sees it, and weights are laid out with the same
// permutation.
#pragma once

#include "core/cuda/mma.cuh"
#include "core/cuda/persistent_recurrent.h"

namespace whisker::cuda {

inline constexpr int persistent_threads = persistent_warps * 32;
inline constexpr int piece_k = 32;

/// How a kind's gates look to the kernels.
enum class Gating : uint8_t { plain, lstm, gru };
template <Gating gating>
inline constexpr int gates_of = gating == Gating::lstm  ? 4
                                : gating == Gating::gru ? 3
                                                        : 1;

/// Eight neighbouring elements along k, as registers.
template <class T>
struct Eight {
  uint32_t at[2 * sizeof(T)];
};

/// From 16-byte parts: part(i) is the i-th.
template <class T, class Part>
__device__ inline Eight<T> eight_of(const Part& part) {
  Eight<T> result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    const uint4 words = part(i);
    result.at[4 * i] = words.x;
    result.at[4 * i + 1] = words.y;
    result.at[4 * i + 2] = words.z;
    result.at[4 * i + 3] = words.w;
  }
  return result;
}

/// Where element e of lane `lane` lies in the weights of a (piece, tile of 8 columns): 16-byte
/// parts of all lanes side by side.
template <class T>
__device__ inline int64_t weight_place(int piece, int tile, int tiles, int lane, int e) {
  constexpr int in_part = 16 / static_cast<int>(sizeof(T));
  constexpr int parts = 8 / in_part;
  const int64_t unit = int64_t{piece} * tiles + tile;
  return ((unit * parts + e / in_part) * 32 + lane) * in_part + e % in_part;
}

template <class T>
__device__ inline Eight<T> load_weights(const T* weights, int piece, int tile, int tiles) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  constexpr int in_part = 16 / static_cast<int>(sizeof(T));
  return eight_of<T>([&](int i) {
    return *reinterpret_cast<const uint4*>(weights +
                                           weight_place<T>(piece, tile, tiles, lane, i * in_part));
  });
}

/// Through L2: another block may have just stored them.
template <class T>
__device__ inline Eight<T> load_row(const T* source) {
  return eight_of<T>([&](int i) { return __ldcg(reinterpret_cast<const uint4*>(source) + i); });
}

/// acc (16,8) += rows (16,32) W (32,8): rows g and g + 8 of the lane.
template <class T>
__device__ inline void multiply_piece(float (&acc)[4], const Eight<T>& top, const Eight<T>& bottom,
                                      const Eight<T>& w) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      multiply_add<T>(acc,
                      {top.at[2 * i], bottom.at[2 * i], top.at[2 * i + 1], bottom.at[2 * i + 1]},
                      {w.at[2 * i], w.at[2 * i + 1]});
    }
  } else {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      multiply_add_two<T>(acc, {top.at[2 * i], bottom.at[2 * i]},
                          {top.at[2 * i + 1], bottom.at[2 * i + 1]}, w.at[2 * i], w.at[2 * i + 1]);
    }
  }
}

/// This warp's share of rows (16 M, k) times weights (k, 8 TILES), added to acc; `place(tile)` says
/// where in acc a tile goes. Rows from `valid` on are zero.
template <class T, int M, int TILES, int N, class Place>
__device__ inline void multiply_share(float (&acc)[M][N][4], const T* rows, int64_t stride,
                                      int valid, int k, const T* weights, const Place& place) {
  // Pieces whose rows are on their way at once, as far as registers go.
  constexpr int affordable = (160 - 4 * M * N) / (M * 4 * static_cast<int>(sizeof(T)));
  constexpr int ahead = affordable < 1 ? 1 : affordable > 4 ? 4 : affordable;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int g = lane / 4, t = lane % 4;
  const int pieces = k / piece_k;
  for (int first = static_cast<int>(threadIdx.x / 32); first < pieces;
       first += ahead * persistent_warps) {
    Eight<T> a[ahead][M][2];
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int piece = first + i * persistent_warps;
#pragma unroll
      for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int row = m * 16 + half * 8 + g;
          a[i][m][half] = row < valid && piece < pieces
                              ? load_row(rows + row * stride + piece * piece_k + t * 8)
                              : Eight<T>{};
          if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (uint32_t& x : a[i][m][half].at) {
              x = __float_as_uint(operand(__uint_as_float(x)));
            }
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int piece = first + i * persistent_warps;
      if (piece >= pieces) break;
#pragma unroll
      for (int tile = 0; tile < TILES; ++tile) {
        const Eight<T> w = load_weights(weights, piece, tile, TILES);
#pragma unroll
        for (int m = 0; m < M; ++m) {
          multiply_piece<T>(acc[m][place(tile)], a[i][m][0], a[i][m][1], w);
        }
      }
    }
  }
}

/// The warps' shares of sums (rows, columns) in shared memory; a few floats more per row keep
/// banks apart.
template <int M, int N>
struct Shares {
  static constexpr int stride = N * 8 + 8;
  static constexpr int floats = persistent_warps * M * 16 * stride;
  float* at;

  __device__ void put(const float (&acc)[M][N][4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    float* const own = at + static_cast<int>(threadIdx.x / 32) * M * 16 * stride;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int tile = 0; tile < N; ++tile) {
        float* const to = own + (m * 16 + lane / 4) * stride + tile * 8 + lane % 4 * 2;
        *reinterpret_cast<float2*>(to) = make_float2(acc[m][tile][0], acc[m][tile][1]);
        *reinterpret_cast<float2*>(to + 8 * stride) = make_float2(acc[m][tile][2], acc[m][tile][3]);
      }
    }
  }
  /// The sums of columns `column` and the next.
  __device__ float2 sum(int row, int column) const {
    float2 result = make_float2(0, 0);
#pragma unroll
    for (int warp = 0; warp < persistent_warps; ++warp) {
      const float2 share =
          *reinterpret_cast<const float2*>(at + (warp * M * 16 + row) * stride + column);
      result.x += share.x;
      result.y += share.y;
    }
    return result;
  }
};

/// Waits, as a warp, until `flag` counts `count` arrivals; what was stored before them is visible
/// to loads through L2.
__device__ inline void await(const uint32_t* flag, uint32_t count) {
  if (threadIdx.x % 32 == 0) {
    uint32_t seen = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(flag) : "memory");
    } while (seen < count);
  }
  __syncwarp();
}

/// After all threads of the block have stored: one arrival.
__device__ inline void arrive(uint32_t* flag) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(flag, 1u);
  }
}

/// Two neighbouring elements, which one thread keeps.
template <class T>
__device__ inline float2 load_pair(const T* source) {
  const Pack<T, 2> pair = *reinterpret_cast<const Pack<T, 2>*>(source);
  return make_float2(to_f32(pair.at[0]), to_f32(pair.at[1]));
}
template <class T>
__device__ inline void store_pair(T* target, float2 value) {
  *reinterpret_cast<Pack<T, 2>*>(target) = {from_f32<T>(value.x), from_f32<T>(value.y)};
}

/// A block's place among the cells and their slices, and its thread's pair of units.
template <int M, int U>
struct Slice {
  int cell, first_row, first_unit;
  int row, unit;  // of the thread's pair: the sequence, and the first of two hidden units
  int local_row, local_unit;
  int valid;  // rows of the tile that are sequences
  bool owner;
  int tiles;  // arrivals of a step

  __device__ Slice(int batch, int hidden) {
    const int unit_tiles = hidden / U;
    const int row_tiles = (batch + M * 16 - 1) / (M * 16);
    tiles = unit_tiles;
    cell = static_cast<int>(blockIdx.x) / (unit_tiles * row_tiles);
    const int within = static_cast<int>(blockIdx.x) % (unit_tiles * row_tiles);
    first_row = within / unit_tiles * M * 16;
    first_unit = within % unit_tiles * U;
    valid = min(batch - first_row, M * 16);
    local_row = static_cast<int>(threadIdx.x) / (U / 2);
    local_unit = static_cast<int>(threadIdx.x) % (U / 2) * 2;
    row = first_row + local_row;
    unit = first_unit + local_unit;
    owner = local_row < valid;
  }
  /// Of a cell, for this block's tile of sequences.
  __device__ uint32_t* flag(uint32_t* flags, int of_cell, int batch) const {
    const int row_tiles = (batch + M * 16 - 1) / (M * 16);
    return flags + static_cast<unsigned>(of_cell * row_tiles + first_row / (M * 16)) * flag_words;
  }
};

__device__ inline float logistic(float x) {
  return 1 / (1 + __expf(-x));
}

/// What a launch passes by value.
template <class Cell>
struct PersistentArguments {
  int steps, batch, hidden;
  int64_t y_stride;
  bool relu;  // of a plain cell
  const int64_t* lengths;
  uint32_t* flags;
  Cell cells[most_persistent_cells];
};

/// Of a sequence, within [0, steps].
template <class Cell>
__device__ inline int length_of(const PersistentArguments<Cell>& p, int row) {
  const int64_t length = p.lengths[row];
  return length < 0 ? 0 : length > p.steps ? p.steps : static_cast<int>(length);
}

/// For the cells of a launch.
template <class Cell>
PersistentArguments<Cell> arguments_of(const PersistentLaunch& launch) {
  const RecurrentGeometry& g = launch.geometry;
  return {.steps = static_cast<int>(g.steps),
          .batch = static_cast<int>(g.batch),
          .hidden = static_cast<int>(g.hidden),
          .y_stride = launch.y_stride,
          .relu = g.kind == RecurrentKind::rnn_relu,
          .lengths = launch.lengths,
          .flags = launch.flags,
          .cells = {}};
}

/// kernel<<<blocks, persistent_threads>>> with all blocks on the GPU at once.
template <class Arguments>
void launch_persistent(void (*kernel)(Arguments), int64_t blocks, size_t shared_bytes,
                       const Arguments& arguments, cudaStream_t stream) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        "setting a kernel's shared memory");
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(persistent_threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &together;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments), "launching a persistent kernel");
}

/// Calls fn.operator()<T, gating, M, U>() for the launch's types and tiling.
template <class Fn>
void visit_persistent(const RecurrentGeometry& g, const PersistentTiling& tiling, Fn&& fn) {
  const auto with_gating = [&]<class T, int M, int U>() {
    if (g.kind == RecurrentKind::lstm) return fn.template operator()<T, Gating::lstm, M, U>();
    if (g.kind == RecurrentKind::gru) return fn.template operator()<T, Gating::gru, M, U>();
    return fn.template operator()<T, Gating::plain, M, U>();
  };
  visit_real(g.dtype, [&]<class T>() {
    if constexpr (sizeof(T) == 4) {
      if (tiling.rows == 64) return with_gating.template operator()<T, 4, 8>();
      return with_gating.template operator()<T, 2, 8>();
    } else {
      if (tiling.rows == 32) return with_gating.template operator()<T, 2, 16>();
      return with_gating.template operator()<T, 1, 16>();
    }
  });
}

}  // namespace whisker::cuda
