// What a kernel of the exercises includes. Under nvcc this is CUDA itself. A C++ compiler gets the
// same names, and block_emulation.h runs the kernel: the same source serves both. Not emulated:
// dynamic shared memory (extern
// __shared__), __shared__ in a template, tensor cores, asynchronous copies, streams.
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// The variables of a block lie in one section, which the emulation fills with NaN before each
// block.
#define __shared__ static __attribute__((section("block_shared")))
#define __syncthreads() ::emulation::wait_for_block(__LINE__)
#define __syncwarp(...) static_cast<void>(::emulation::exchange(~0u, 0, 0))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline constexpr int warpSize = 32;
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
using std::max;
using std::min;

namespace emulation {

void wait_for_block(int line);
/// Gives `bits` to the warp and returns those of lane `from`, once all lanes of `mask` have come
/// here.
uint64_t exchange(unsigned mask, uint64_t bits, int from);
/// Says that this thread changes `bytes` at `address` atomically.
void note_atomic(const void* address, size_t bytes);
unsigned lane();

template <class T>
T shuffle(unsigned mask, T value, int from, int width) {
  const int segment = static_cast<int>(lane()) / width * width;
  if (from < segment || from >= segment + width) from = static_cast<int>(lane());
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(mask, bits, from);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Sets *address to change(*address) and returns what it was.
template <class T, class F>
__attribute__((no_sanitize("thread"), noinline)) T change_atomically(T* address, F change) {
  note_atomic(address, sizeof(T));
  const T old = *address;
  *address = change(old);
  return old;
}

}  // namespace emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int segment = static_cast<int>(emulation::lane()) / width * width;
  return emulation::shuffle(mask, value, segment + from % width, width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return emulation::shuffle(mask, value, static_cast<int>(emulation::lane() + delta), width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  return emulation::shuffle(mask, value,
                            static_cast<int>(emulation::lane()) - static_cast<int>(delta), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  return emulation::shuffle(mask, value, static_cast<int>(emulation::lane()) ^ bits, width);
}
template <class T>
T atomicAdd(T* address, T value) {
  return emulation::change_atomically(address, [=](T old) { return old + value; });
}
template <class T>
T atomicMax(T* address, T value) {
  return emulation::change_atomically(address, [=](T old) { return std::max(old, value); });
}
template <class T>
T atomicMin(T* address, T value) {
  return emulation::change_atomically(address, [=](T old) { return std::min(old, value); });
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float rsqrtf(float x) {
  return 1.0f / std::sqrt(x);
}
#endif
