// y[i] = a x[i] + y[i], with a grid of any size. exercise.md says more.
#include "gpu/gpu.h"

__global__ void saxpy(float a, const float* x, float* y, int n) {
  // Fill in: a loop over the elements of this thread.
}
