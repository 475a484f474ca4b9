// sums[b] is the sum of the 256 elements of block b. exercise.md says more.
#include "gpu/gpu.h"

__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float partial[256];
  // Fill in: each thread writes its element to partial, then halve the number of sums until one is
  // left.
}
