#include "gpu/gpu.h"

__global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][33];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int left = static_cast<int>(blockIdx.x) * 32, top = static_cast<int>(blockIdx.y) * 32;
  for (int i = ty; i < 32; i += 8) {
    if (top + i < rows && left + tx < columns) tile[i][tx] = x[(top + i) * columns + left + tx];
  }
  __syncthreads();
  for (int i = ty; i < 32; i += 8) {
    if (left + i < columns && top + tx < rows) y[(left + i) * rows + top + tx] = tile[tx][i];
  }
}
