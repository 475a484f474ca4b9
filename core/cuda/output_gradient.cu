// Threads of a block lie side by side over packs of channels and above each other over rows, so
// that a warp reads whole cache lines and a column sum stays in one thread's registers until the
// block's end. Blocks along y share the rows; a second kernel adds their sums in order.
#include "core/cuda/check.h"
#include "core/cuda/activations.cuh"
#include "core/cuda/launch.h"
#include "core/cuda/output_gradient.h"
#include "core/cuda/types.cuh"

#include <algorithm>

namespace whisker::cuda {
namespace {

/// How many threads of a block lie along the packs of a row: a power of two that covers them.
int threads_across(int64_t packs) {
  int across = 1;
  while (across < packs && across < 32) across *= 2;
  return across;
}

template <class T, int N>
__global__ void bias_activation_kernel(int64_t packs, int64_t packs_per_row, ActivationSpec f,
                                       const T* b, T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < packs; at += step) {
    Pack<T, N> value = reinterpret_cast<Pack<T, N>*>(y)[at];
    Pack<T, N> bias{};
    if (b) bias = reinterpret_cast<const Pack<T, N>*>(b)[at % packs_per_row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float z = to_f32(value.at[i]) + (b ? to_f32(bias.at[i]) : 0.0f);
      value.at[i] = from_f32<T>(activate(f, z));
    }
    reinterpret_cast<Pack<T, N>*>(y)[at] = value;
  }
}

/// Sums over this block's rows go to `sums` (gridDim.y, channels), or, rounded, to `db` where the
/// block has all rows. Block: (across, down); grid: (packs / across, parts of the rows).
template <class T, int N>
__global__ void output_gradient_kernel(int64_t rows, int64_t packs_per_row, ActivationSpec f,
                                       const T* y, const T* dy, T* dz, T* db, float* sums) {
  extern __shared__ float partial[];  // (down, across N)
  const int64_t pack = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t rows_per_block = (rows + gridDim.y - 1) / gridDim.y;
  const int64_t begin = blockIdx.y * rows_per_block;
  const int64_t end = begin + rows_per_block < rows ? begin + rows_per_block : rows;
  float sum[N] = {};
  if (pack < packs_per_row) {
    for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      const int64_t at = row * packs_per_row + pack;
      const Pack<T, N> gradient = reinterpret_cast<const Pack<T, N>*>(dy)[at];
      Pack<T, N> output{};
      if (f.kind != Activation::none) output = reinterpret_cast<const Pack<T, N>*>(y)[at];
      Pack<T, N> result;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float d = to_f32(gradient.at[i]) * activation_slope(f, to_f32(output.at[i]));
        sum[i] += d;
        result.at[i] = from_f32<T>(d);
      }
      if (dz) reinterpret_cast<Pack<T, N>*>(dz)[at] = result;
    }
  }
  if (!db && !sums) return;
  const unsigned width = blockDim.x * N;
#pragma unroll
  for (int i = 0; i < N; ++i) partial[threadIdx.y * width + threadIdx.x * N + i] = sum[i];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        partial[threadIdx.y * width + threadIdx.x * N + i] +=
            partial[(threadIdx.y + half) * width + threadIdx.x * N + i];
      }
    }
  }
  if (threadIdx.y != 0 || pack >= packs_per_row) return;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float total = partial[threadIdx.x * N + i];
    if (sums) {
      sums[(blockIdx.y * packs_per_row + pack) * N + i] = total;
    } else {
      db[pack * N + i] = from_f32<T>(total);
    }
  }
}

/// db (channels) = column sums of sums (parts, channels). Block: (32 channels, 8 parts at a time).
template <class T>
__global__ void add_parts_kernel(int64_t parts, int64_t channels, const float* sums, T* db) {
  __shared__ float partial[8][32];
  const int64_t channel = int64_t{blockIdx.x} * 32 + threadIdx.x;
  float sum = 0;
  if (channel < channels) {
    for (int64_t part = threadIdx.y; part < parts; part += 8)
      sum += sums[part * channels + channel];
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int i = 1; i < 8; ++i) sum += partial[i][threadIdx.x];
  db[channel] = from_f32<T>(sum);
}

bool aligned(std::initializer_list<const void*> pointers, int64_t bytes) {
  return std::all_of(pointers.begin(), pointers.end(), [bytes](const void* pointer) {
    return reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(bytes) == 0;
  });
}

/// Calls fn.operator()<T, N>() with N elements per pack: 16 bytes of them where the rows and the
/// pointers allow.
template <class Fn>
void visit_packed(const RowsGeometry& g, std::initializer_list<const void*> pointers, Fn&& fn) {
  visit_real(g.dtype, [&]<class T>() {
    if (g.channels % pack_size<T> == 0 && aligned(pointers, 16)) {
      fn.template operator()<T, pack_size<T>>();
    } else {
      fn.template operator()<T, 1>();
    }
  });
}

}  // namespace

void bias_activation(const RowsGeometry& g, ActivationSpec f, const void* b, void* y,
                     cudaStream_t stream) {
  if (!b && f.kind == Activation::none) return;
  visit_packed(g, {b, y}, [&]<class T, int N>() {
    const int64_t packs = g.rows * g.channels / N;
    bias_activation_kernel<T, N><<<grid_for(packs), block_threads, 0, stream>>>(
        packs, g.channels / N, f, static_cast<const T*>(b), static_cast<T*>(y));
  });
  check_launch("bias and activation");
}

void output_gradient(const RowsGeometry& g, ActivationSpec f, const void* y, const void* dy,
                     void* dz, void* db, Context& context, Allocator& allocator) {
  if (!dz && !db) return;
  const bool active = f.kind != Activation::none;
  visit_packed(g, {active ? y : nullptr, dy, dz, db}, [&]<class T, int N>() {
    const int64_t packs_per_row = g.channels / N;
    const int across = threads_across(packs_per_row);
    const int down = block_threads / across;
    const int64_t blocks_across = (packs_per_row + across - 1) / across;
    // At least eight rows per thread, and no more blocks than four rounds of them.
    const int64_t most_parts =
        std::max<int64_t>(4 * int64_t{context.multiprocessors()} / blocks_across, 1);
    const int64_t parts = std::clamp<int64_t>(g.rows / (int64_t{down} * 8), 1, most_parts);
    const Scratch sums(allocator,
                       db && parts > 1 ? parts * g.channels * int64_t{sizeof(float)} : 0);
    float* const part_sums = db && parts > 1 ? sums.as<float>() : nullptr;
    const dim3 grid(static_cast<unsigned>(blocks_across), static_cast<unsigned>(parts));
    const dim3 block(static_cast<unsigned>(across), static_cast<unsigned>(down));
    output_gradient_kernel<T, N>
        <<<grid, block, sizeof(float) * N * block_threads, context.stream()>>>(
            g.rows, packs_per_row, f, static_cast<const T*>(y), static_cast<const T*>(dy),
            static_cast<T*>(dz), static_cast<T*>(db), part_sums);
    check_launch("output gradient");
    if (!part_sums) return;
    add_parts_kernel<T>
        <<<static_cast<unsigned>((g.channels + 31) / 32), dim3(32, 8), 0, context.stream()>>>(
            parts, g.channels, part_sums, static_cast<T*>(db));
    check_launch("bias gradient");
  });
}

}  // namespace whisker::cuda
