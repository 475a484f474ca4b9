// Level 2: a block computes a tile of 32 x 32 elements. It reads tiles of A and B into shared
// memory, coalesced, and uses each element 32 times. Extents are multiples of 32.
#pragma once

namespace level2 {

constexpr int tile = 32;

__global__ void matmul(const float* a, const float* b, float* c, int n, int k) {
  __shared__ float of_a[tile][tile], of_b[tile][tile + 1];  // a column of of_b lies in 32 banks
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int top = static_cast<int>(blockIdx.y) * tile, left = static_cast<int>(blockIdx.x) * tile;
  float sum = 0;
  for (int begin = 0; begin < k; begin += tile) {
    of_a[ty][tx] = a[(top + ty) * k + begin + tx];
    of_b[ty][tx] = b[(left + ty) * k + begin + tx];
    __syncthreads();
    for (int i = 0; i < tile; ++i) sum += of_a[ty][i] * of_b[tx][i];
    __syncthreads();
  }
  c[(top + ty) * n + left + tx] = sum;
}

inline void run(const float* a, const float* b, float* c, int m, int n, int k) {
  matmul<<<dim3(static_cast<unsigned>(n / tile), static_cast<unsigned>(m / tile)),
           dim3(tile, tile)>>>(a, b, c, n, k);
}

}  // namespace level2
