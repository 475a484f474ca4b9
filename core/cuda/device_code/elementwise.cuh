// The loops of all pointwise kernels. y[i] = f(x[i], ...): each thread processes 16 bytes at a time
// where addresses allow, else one element; f computes in f32. f(i) alone is for all other loops.
#pragma once

#include "core/backend/geometry.h"
#include "core/cuda/device_code/channels.cuh"
#include "core/cuda/device_code/launch.h"
#include "core/cuda/runtime/check.h"

#include <algorithm>
#include <cstdint>

namespace whisker::cuda {

__device__ inline int64_t first_item() {
  return blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
}
__device__ inline int64_t item_step() {
  return gridDim.x * int64_t{blockDim.x};
}

template <class F>
__global__ void __launch_bounds__(block_threads) each_kernel(int64_t count, F f) {
  for (int64_t i = first_item(); i < count; i += item_step()) f(i);
}
/// Launches f(i) for every i below `count`, one thread per i and turn.
template <class F>
void for_each_item(cudaStream_t stream, const char* name, int64_t count, const F& f) {
  if (count == 0) return;
  each_kernel<<<grid_for(count), block_threads, 0, stream>>>(count, f);
  check_launch(name);
}

template <int N, class T, class F, class... In>
__device__ inline Pack<T, N> map_pack(const F& f, const Pack<In, N>&... x) {
  Pack<T, N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) y.at[k] = from_f32<T>(f(to_f32(x.at[k])...));
  return y;
}

// A thread processes every item_step()-th pack, and at most one element of the rest. Each element
// is read before it is written, so y may be one of x.
template <int N, class T, class F, class... In>
__device__ inline void map_elements(int64_t count, const F& f, T* y, const In*... x) {
  const int64_t packs = count / N;
  for (int64_t p = first_item(); p < packs; p += item_step()) {
    store_pack<N>(y, p * N, map_pack<N, T>(f, load_pack<N>(x, p * N)...));
  }
  const int64_t rest = packs * N + first_item();
  if (rest < count) y[rest] = from_f32<T>(f(to_f32(x[rest])...));
}
template <int N, class T, class F, class... In>
__global__ void __launch_bounds__(block_threads)
    map_kernel(int64_t count, F f, T* y, const In*... x) {
  map_elements<N>(count, f, y, x...);
}

/// True when every pointer may be read in packs of N of its elements.
template <int N, class... P>
bool aligned_for(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % (sizeof(P) * N) == 0) && ...);
}

/// F, whose member f is an ActivationSpec of this kind: with a constant kind no element branches.
template <Activation kind, class F>
struct OfKind {
  F function;
  template <class... In>
  __device__ float operator()(In... x) const {
    F constant = function;
    constant.f.kind = kind;
    return constant(x...);
  }
};

/// Launches y[i] = f(x[i], ...) for `count` elements; f maps f32 to f32.
template <class T, class F, class... In>
void map(cudaStream_t stream, const char* name, int64_t count, F f, T* y, const In*... x) {
  if (count == 0) return;
  if constexpr (requires { f.f.kind; }) {
    using enum Activation;  // those whose arithmetic takes as long as the memory
    if (f.f.kind == gelu) return map(stream, name, count, OfKind<gelu, F>{f}, y, x...);
    if (f.f.kind == silu) return map(stream, name, count, OfKind<silu, F>{f}, y, x...);
  }
  constexpr int n = std::min({pack_size<T>, pack_size<In>...});
  if (aligned_for<n>(y, x...)) {
    map_kernel<n, T>
        <<<grid_for((count + n - 1) / n), block_threads, 0, stream>>>(count, f, y, x...);
  } else {
    map_kernel<1, T><<<grid_for(count), block_threads, 0, stream>>>(count, f, y, x...);
  }
  check_launch(name);
}

}  // namespace whisker::cuda
