#include "gpu/gpu.h"

__global__ void row_sum(const float* x, float* sums, int columns) {
  const float* const row = x + static_cast<int>(blockIdx.x) * columns;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += 32) sum += row[i];
  for (unsigned lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_down_sync(0xffffffff, sum, lanes);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
