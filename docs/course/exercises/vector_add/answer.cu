// sum[i] = a[i] + b[i], a thread for each i. exercise.md says more.
#include "gpu/gpu.h"

__global__ void vector_add(const float* a, const float* b, float* sum, int n) {
  // Fill in: which i is this thread's?
}
