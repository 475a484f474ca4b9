// Level 1: a thread for each element of C, which reads a row of A and a row of B from global
// memory. In all levels C = A B^T: A is (m,k), B (n,k), C (m,n), row after row, as a linear layer
// multiplies by its weights.
#pragma once

namespace level1 {

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[column * k + i];
  c[row * n + column] = sum;
}

inline void run(const float* a, const float* b, float* c, int m, int n, int k) {
  const dim3 blocks(static_cast<unsigned>((n + 31) / 32), static_cast<unsigned>((m + 7) / 8));
  matmul<<<blocks, dim3(32, 8)>>>(a, b, c, m, n, k);
}

}  // namespace level1
