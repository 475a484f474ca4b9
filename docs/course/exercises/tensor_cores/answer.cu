// C = A B of 16 x 16 elements, by one warp on tensor cores. exercise.md says more.
#include "gpu/gpu.h"

#include <mma.h>

__global__ void tensor_cores(const __half* a, const __half* b, float* c) {
  // Fill in: fill a fragment of C with 0, load those of A and B, multiply, store.
}
