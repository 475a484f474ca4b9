// Level 4: tensor cores. A warp multiplies fragments of 16 x 16 bf16 elements with one instruction
// or two, and adds in f32. A block of 8 warps computes 128 x 128 elements, each warp 64 x 32.
// Extents are multiples of 128, k of 32.
#pragma once

#include <cuda_bf16.h>
#include <mma.h>

namespace level4 {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

constexpr int tile = 128, depth = 32, threads = 256;
constexpr int pitch =
    depth + 8;  // elements from row to row in shared memory: 8 rows lie in different banks

using SumFragment = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// 128 rows x 32 columns: each thread moves 8 elements, 16 bytes, of two rows.
__device__ inline void load(const bf16* x, int k, bf16* to) {
  for (int part = static_cast<int>(threadIdx.x); part < tile * depth / 8; part += threads) {
    const int row = part / 4, column = part % 4 * 8;
    *reinterpret_cast<uint4*>(to + row * pitch + column) =
        *reinterpret_cast<const uint4*>(x + static_cast<size_t>(row) * k + column);
  }
}

// sums += the warp's 64 rows of A times its 32 rows of B, transposed.
__device__ inline void multiply(const bf16* a, const bf16* b, SumFragment (&sums)[4][2]) {
#pragma unroll
  for (int i = 0; i < depth; i += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> of_a[4];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> of_b[2];
#pragma unroll
    for (int row = 0; row < 4; ++row)
      wmma::load_matrix_sync(of_a[row], a + 16 * row * pitch + i, pitch);
#pragma unroll
    for (int column = 0; column < 2; ++column)
      wmma::load_matrix_sync(of_b[column], b + 16 * column * pitch + i, pitch);
#pragma unroll
    for (int row = 0; row < 4; ++row) {
#pragma unroll
      for (int column = 0; column < 2; ++column)
        wmma::mma_sync(sums[row][column], of_a[row], of_b[column], sums[row][column]);
    }
  }
}

// Rounds a warp's sums to bf16, through 16 x 16 floats of shared memory: which lane holds which
// element is not specified.
__device__ inline void store(const SumFragment (&sums)[4][2], float* scratch, bf16* c, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int row = 0; row < 4; ++row) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      wmma::store_matrix_sync(scratch, sums[row][column], 16, wmma::mem_row_major);
      __syncwarp();
      for (int i = lane; i < 256; i += 32) {
        c[static_cast<size_t>(16 * row + i / 16) * n + 16 * column + i % 16] =
            __float2bfloat16(scratch[i]);
      }
      __syncwarp();
    }
  }
}

__global__ void __launch_bounds__(threads)
    matmul(const bf16* a, const bf16* b, bf16* c, int n, int k) {
  __shared__ __align__(128) bf16 of_a[tile * pitch], of_b[tile * pitch];
  __shared__ __align__(128) float scratch[threads / 32][256];
  const int warp = static_cast<int>(threadIdx.x) / 32, top = warp / 4 * 64,
            left = warp % 4 * 32;  // of the tile
  a += static_cast<size_t>(blockIdx.y) * tile * k;
  b += static_cast<size_t>(blockIdx.x) * tile * k;
  c += static_cast<size_t>(blockIdx.y) * tile * n + blockIdx.x * tile;
  SumFragment sums[4][2];
  for (auto& row : sums) {
    for (auto& sum : row) wmma::fill_fragment(sum, 0.0f);
  }
  for (int begin = 0; begin < k; begin += depth) {
    load(a + begin, k, of_a);
    load(b + begin, k, of_b);
    __syncthreads();
    multiply(of_a + top * pitch, of_b + left * pitch, sums);
    __syncthreads();
  }
  store(sums, scratch[warp], c + static_cast<size_t>(top) * n + left, n);
}

inline void run(const bf16* a, const bf16* b, bf16* c, int m, int n, int k) {
  matmul<<<dim3(static_cast<unsigned>(n / tile), static_cast<unsigned>(m / tile)), threads>>>(
      a, b, c, n, k);
}

}  // namespace level4
