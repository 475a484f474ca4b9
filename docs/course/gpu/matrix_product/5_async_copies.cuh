// Level 5: as level 4, but the copies to shared memory run beside the tensor cores. cp.async passes
// no registers; four buffers hold the next three parts of A and B while the oldest is multiplied.
// From compute capability 8.0.
#pragma once

#include "4_tensor_cores.cuh"

#include <cuda_pipeline.h>

namespace level5 {

using level4::bf16, level4::depth, level4::pitch, level4::threads, level4::tile;

constexpr int stages = 4, part = tile * pitch;  // elements of a buffer
constexpr size_t shared_bytes = 2 * stages * part * sizeof(bf16);

// Starts the copy of 128 rows x 32 columns.
__device__ inline void start_load(const bf16* x, int k, bf16* to) {
  for (int i = static_cast<int>(threadIdx.x); i < tile * depth / 8; i += threads) {
    const int row = i / 4, column = i % 4 * 8;
    __pipeline_memcpy_async(to + row * pitch + column, x + static_cast<size_t>(row) * k + column,
                            16);
  }
}

__global__ void __launch_bounds__(threads)
    matmul(const bf16* a, const bf16* b, bf16* c, int n, int k) {
  extern __shared__ __align__(128) bf16 buffers[];
  bf16 *const of_a = buffers, *const of_b = buffers + stages * part;
  const int warp = static_cast<int>(threadIdx.x) / 32, top = warp / 4 * 64, left = warp % 4 * 32;
  a += static_cast<size_t>(blockIdx.y) * tile * k;
  b += static_cast<size_t>(blockIdx.x) * tile * k;
  c += static_cast<size_t>(blockIdx.y) * tile * n + blockIdx.x * tile;
  level4::SumFragment sums[4][2];
  for (auto& row : sums) {
    for (auto& sum : row) nvcuda::wmma::fill_fragment(sum, 0.0f);
  }
  const int steps = k / depth;
  // Groups of copies are counted, also those of nothing at the end.
  const auto start = [&](int step) {
    if (step < steps) {
      start_load(a + step * depth, k, of_a + step % stages * part);
      start_load(b + step * depth, k, of_b + step % stages * part);
    }
    __pipeline_commit();
  };
  for (int step = 0; step < stages - 1; ++step) start(step);
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(stages - 2);  // this thread's copies of `step` have arrived,
    __syncthreads();                    // and all other threads', and step - 1 is multiplied
    start(step + stages - 1);
    const int buffer = step % stages * part;
    level4::multiply(of_a + buffer + top * pitch, of_b + buffer + left * pitch, sums);
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  level4::store(sums, reinterpret_cast<float*>(buffers) + warp * 256,
                c + static_cast<size_t>(top) * n + left, n);
}

inline void run(const bf16* a, const bf16* b, bf16* c, int m, int n, int k) {
  cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(shared_bytes));
  const dim3 blocks(static_cast<unsigned>(n / tile), static_cast<unsigned>(m / tile));
  matmul<<<blocks, threads, shared_bytes>>>(a, b, c, n, k);
}

}  // namespace level5
