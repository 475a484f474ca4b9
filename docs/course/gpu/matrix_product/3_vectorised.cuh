// Level 3: a thread computes 8 x 8 elements in registers, so that 16 numbers from shared memory
// serve 64 multiply-adds; all memory is read four floats at a time. A block of 256 threads computes
// 128 x 128 elements. Extents are multiples of 128, k of 8.
#pragma once

namespace level3 {

constexpr int tile = 128, depth = 8, threads = 256;

// 128 rows x 8 columns, transposed in shared memory: each thread moves four elements of a row.
__device__ inline void load(const float* x, int k, float (&to)[depth][tile + 4]) {
  const int row = static_cast<int>(threadIdx.x) / 2, column = static_cast<int>(threadIdx.x) % 2 * 4;
  const float4 four = *reinterpret_cast<const float4*>(x + static_cast<size_t>(row) * k + column);
  to[column][row] = four.x;
  to[column + 1][row] = four.y;
  to[column + 2][row] = four.z;
  to[column + 3][row] = four.w;
}

// Elements 4 p to 4 p + 3 and 64 + 4 p to 64 + 4 p + 3 of a row: neighbouring threads read
// neighbours.
__device__ inline void take(const float (&row)[tile + 4], int p, float (&eight)[8]) {
  *reinterpret_cast<float4*>(eight) = *reinterpret_cast<const float4*>(row + 4 * p);
  *reinterpret_cast<float4*>(eight + 4) = *reinterpret_cast<const float4*>(row + 64 + 4 * p);
}

__global__ void __launch_bounds__(threads)
    matmul(const float* a, const float* b, float* c, int n, int k) {
  __shared__ __align__(16) float of_a[depth][tile + 4], of_b[depth][tile + 4];
  const int tx = static_cast<int>(threadIdx.x) % 16, ty = static_cast<int>(threadIdx.x) / 16;
  const int top = static_cast<int>(blockIdx.y) * tile, left = static_cast<int>(blockIdx.x) * tile;
  float sums[8][8] = {};
  for (int begin = 0; begin < k; begin += depth) {
    load(a + static_cast<size_t>(top) * k + begin, k, of_a);
    load(b + static_cast<size_t>(left) * k + begin, k, of_b);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < depth; ++i) {
      float x[8], y[8];
      take(of_a[i], ty, x);
      take(of_b[i], tx, y);
#pragma unroll
      for (int row = 0; row < 8; ++row) {
#pragma unroll
        for (int column = 0; column < 8; ++column) sums[row][column] += x[row] * y[column];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int row = 0; row < 8; ++row) {
    float* const to = c + static_cast<size_t>(top + row / 4 * 64 + 4 * ty + row % 4) * n + left;
    *reinterpret_cast<float4*>(to + 4 * tx) = *reinterpret_cast<const float4*>(sums[row]);
    *reinterpret_cast<float4*>(to + 64 + 4 * tx) = *reinterpret_cast<const float4*>(sums[row] + 4);
  }
}

inline void run(const float* a, const float* b, float* c, int m, int n, int k) {
  matmul<<<dim3(static_cast<unsigned>(n / tile), static_cast<unsigned>(m / tile)), threads>>>(
      a, b, c, n, k);
}

}  // namespace level3
