// What the persistent recurrent kernels have in common.
//
// Note [Persistent recurrence]
// A step of a recurrent layer is a gemm of few rows (the batch) with constant weights. A launch per
// step would read all weights again and pay the launch. Instead one kernel computes all steps. Each
// block, one per multiprocessor, owns a slice of a cell's hidden units and keeps its rows of the
// weights in shared memory. It needs the whole previous state of its sequences, of which it
// computed one slice, so slices are exchanged through L2: a block stores its part of y (backward:
// of the gates' gradients), then increments the counter of its cell and tile of sequences; a reader
// waits until the counter includes all slices. Layers run as a wavefront: a block waits for the
// same step of the layer below in the same way, so L layers of T steps take T + L - 1 turns. All
// blocks must be resident at once (a cooperative launch). Each address is written once, so the
// counters are the only synchronisation. Weights that stay on the chip: Diamos et al., "Persistent
// RNNs", ICML 2016.
#pragma once

#include "core/cuda/recurrent/persistent/gemm_partials.cuh"
#include "core/cuda/recurrent/persistent/persistent_recurrent.h"

#include <algorithm>

namespace whisker::cuda {

inline constexpr int persistent_threads = persistent_warps * 32;

/// The structure of a kind's gates.
enum class Gating : uint8_t { plain, lstm, gru };
template <Gating gating>
inline constexpr int gates_of = gating == Gating::lstm  ? 4
                                : gating == Gating::gru ? 3
                                                        : 1;

/// The warp waits until `flag` has counted `count` arrivals; what was stored before them is visible
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

/// One arrival, after all threads of the block have stored.
__device__ inline void arrive(uint32_t* flag) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(flag, 1u);
  }
}

/// Two neighbouring elements.
template <class T>
__device__ inline float2 load_pair(const T* source) {
  const Pack<T, 2> pair = *reinterpret_cast<const Pack<T, 2>*>(source);
  return make_float2(to_f32(pair.at[0]), to_f32(pair.at[1]));
}
template <class T>
__device__ inline void store_pair(T* target, float2 value) {
  *reinterpret_cast<Pack<T, 2>*>(target) = {from_f32<T>(value.x), from_f32<T>(value.y)};
}

/// The block's cell and slice, and the thread's pair of units.
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
  /// The counter of a cell for this block's tile of sequences.
  __device__ uint32_t* flag(uint32_t* flags, int of_cell, int batch) const {
    const int row_tiles = (batch + M * 16 - 1) / (M * 16);
    return flags + static_cast<unsigned>(of_cell * row_tiles + first_row / (M * 16)) * flag_words;
  }
};

__device__ inline float logistic(float x) {
  return 1 / (1 + __expf(-x));
}

/// What a launch passes by value.
struct PersistentArguments {
  int steps, batch, hidden;
  int64_t y_stride;
  bool relu;  // of a plain cell
  const int64_t* lengths;
  uint32_t* flags;
  PersistentCell cells[most_persistent_cells];
};

/// Steps of a sequence, within [0, steps].
__device__ inline int length_of(const PersistentArguments& p, int row) {
  const int64_t length = p.lengths[row];
  return length < 0 ? 0 : length > p.steps ? p.steps : static_cast<int>(length);
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

/// Launches kernel_of.operator()<T, gating, M, U>() over `cells`, with all blocks on the GPU at
/// once.
template <class KernelOf>
void launch_persistent(const PersistentLaunch& launch, std::span<const PersistentCell> cells,
                       size_t shared_bytes, const KernelOf& kernel_of) {
  const RecurrentGeometry& g = launch.geometry;
  PersistentArguments arguments{.steps = static_cast<int>(g.steps),
                                .batch = static_cast<int>(g.batch),
                                .hidden = static_cast<int>(g.hidden),
                                .y_stride = launch.y_stride,
                                .relu = g.kind == RecurrentKind::rnn_relu,
                                .lengths = launch.lengths,
                                .flags = launch.flags,
                                .cells = {}};
  std::ranges::copy(cells, arguments.cells);
  cudaLaunchAttribute together{};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(persistent_blocks(launch, cells.size())));
  config.blockDim = dim3(persistent_threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = launch.stream;
  config.attrs = &together;
  config.numAttrs = 1;
  visit_persistent(g, launch.tiling, [&]<class T, Gating gating, int M, int U>() {
    const auto kernel = kernel_of.template operator()<T, gating, M, U>();
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "setting a kernel's shared memory");
    check(cudaLaunchKernelEx(&config, kernel, arguments), "launching a persistent kernel");
  });
}

}  // namespace whisker::cuda
