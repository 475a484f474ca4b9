// y = f(a, b) of operands that are broadcast: the walk over both, in packs where the last axis
// allows.
#pragma once

#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/elementwise.cuh"
#include "core/cuda/ops/walk.cuh"

namespace whisker::cuda {

/// A pack of an operand, or the element that is all of it. Each has registers of its own: those of
/// a pack could be written only once its load has come, and later loads would wait.
template <class T, int N>
struct LoadedOperand {
  PackBytes<T, N> pack;
  T element;

  __device__ void load(const T* x, bool spread, int64_t at) {
    if (spread) {
      element = x[at];
    } else {
      pack = load_pack_bytes<N>(x, at * N);
    }
  }
  __device__ Pack<T, N> values(bool spread) const {
    Pack<T, N> result = unpack<T, N>(pack);
#pragma unroll
    for (int k = 0; k < N; ++k) result.at[k] = spread ? element : result.at[k];
    return result;
  }
};

/// Blocks of broadcast_kernel per multiprocessor, against memory's latency: below compute
/// capability 8.0 one holds 1,024 threads.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr int broadcast_blocks = 4;
#else
inline constexpr int broadcast_blocks = 5;
#endif

/// A thread computes `together` packs of N elements of the last axis at a time. The geometry counts
/// packs; an operand that is broadcast along the last axis has strides in elements.
template <class T, int N, class Index, class F>
__global__ void __launch_bounds__(block_threads, sizeof(Index) == 4 ? broadcast_blocks : 1)
    broadcast_kernel(F f, BroadcastGeometry g, const __grid_constant__ Divisors<Index> by,
                     const T* a, const T* b, T* y) {
  const bool spread_a = g.a_stride[g.rank - 1] == 0, spread_b = g.b_stride[g.rank - 1] == 0;
  constexpr int together = 2;
  for (int64_t first = first_item(); first < g.count; first += together * item_step()) {
    // All loads start before the first is used.
    LoadedOperand<T, N> left[together], right[together];
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int64_t i = first + k * item_step();
      if (i >= g.count) break;
      const Offsets at = offsets_of<Index>(g.rank, by, i, g.a_stride, g.b_stride);
      left[k].load(a, spread_a, at.a);
      right[k].load(b, spread_b, at.b);
    }
#pragma unroll
    for (int k = 0; k < together; ++k) {
      const int64_t i = first + k * item_step();
      if (i >= g.count) break;
      store_pack<N>(y, i * N,
                    map_pack<N, T>(f, left[k].values(spread_a), right[k].values(spread_b)));
    }
  }
}

/// Merges each N elements of the last axis into a pack; false where they are not packs. Operands
/// are dense: what is not broadcast along an axis is whole packs along it.
template <int N>
bool pack_up(BroadcastGeometry& g, bool aligned_a, bool aligned_b) {
  const auto last = static_cast<size_t>(g.rank - 1);
  if (g.extent[last] % N != 0) return false;
  const auto fits = [&](const Extents& stride, bool aligned) {
    return stride[last] == 0 || (stride[last] == 1 && aligned);
  };
  if (!fits(g.a_stride, aligned_a) || !fits(g.b_stride, aligned_b)) return false;
  for (Extents* stride : {&g.a_stride, &g.b_stride}) {
    if ((*stride)[last] == 0) continue;
    for (size_t axis = 0; axis < last; ++axis) (*stride)[axis] /= N;
  }
  g.extent[last] /= N;
  g.count /= N;
  return true;
}

/// Launches y = f(a, b); f maps f32 to f32.
template <class T, class F>
void broadcast(cudaStream_t stream, const F& f, BroadcastGeometry g, const T* a, const T* b, T* y) {
  const auto launch = [&]<int N>() {
    constexpr int64_t fills_gpu = 1 << 18;  // threads
    const unsigned grid = grid_for(g.count > fills_gpu ? (g.count + 1) / 2 : g.count);
    with_index(g.count, [&]<class Index>() {
      broadcast_kernel<T, N>
          <<<grid, block_threads, 0, stream>>>(f, g, Divisors<Index>(g.rank, g.extent), a, b, y);
    });
  };
  constexpr int n = pack_size<T>;
  if (aligned_for<n>(y) && pack_up<n>(g, aligned_for<n>(a), aligned_for<n>(b))) {
    launch.template operator()<n>();
  } else {
    launch.template operator()<1>();
  }
  check_launch("binary");
}

}  // namespace whisker::cuda
