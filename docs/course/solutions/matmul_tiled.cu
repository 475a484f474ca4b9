#include "gpu/gpu.h"

__global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[16][16], tile_b[16][16];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * 16 + ty,
            column = static_cast<int>(blockIdx.x) * 16 + tx;
  float sum = 0;
  for (int begin = 0; begin < k; begin += 16) {
    tile_a[ty][tx] = row < m && begin + tx < k ? a[row * k + begin + tx] : 0.0f;
    tile_b[ty][tx] = begin + ty < k && column < n ? b[(begin + ty) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += tile_a[ty][i] * tile_b[i][tx];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}
