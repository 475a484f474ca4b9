// y is x transposed, with both sides coalesced. exercise.md says more.
#include "gpu/gpu.h"

__global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][32];
  // Fill in: read a tile along its rows, write it along its columns.
}
