// The kernels of the GPU warm-ups' exercises with the fault number FAULT, in namespace fault1 for
// fault 1; included once for each. planted_gpu.cpp names what each is.
#define NAMESPACE_OF(number) fault##number
#define NAMESPACE(number) NAMESPACE_OF(number)
#define OF_FAULT NAMESPACE(FAULT)
namespace OF_FAULT {

__global__ void vector_add(const float* a, const float* b, float* sum, int n) {
  const int block = static_cast<int>(FAULT == 2 ? 0 : blockIdx.x),
            width = static_cast<int>(blockDim.x);
  int i = block * width + static_cast<int>(threadIdx.x);
  if (FAULT == 3 && (block + 1) * width > n) return;
  if (FAULT == 4) return;
  if (FAULT == 5) i += 1;
  if (FAULT == 8) {  // each thread adds all
    for (i = 0; i < n; ++i) sum[i] = a[i] + b[i];
    return;
  }
  if (FAULT == 1 || i < n + (FAULT == 6)) sum[i] = FAULT == 7 ? a[i] : a[i] + b[i];
}
#include "docs/course/exercises/vector_add/call.h"

__global__ void saxpy(float a, const float* x, float* y, int n) {
  const int stride = static_cast<int>(FAULT == 1 ? blockDim.x : gridDim.x * blockDim.x);
  int i = static_cast<int>((FAULT == 2 ? 0 : blockIdx.x) * blockDim.x + threadIdx.x);
  if (FAULT == 3) {
    if (i < n) y[i] = a * x[i] + y[i];
    return;
  }
  if (FAULT == 8) {  // each thread its own part
    const int part = (n + stride - 1) / stride;
    for (int k = i * part; k < n && k < (i + 1) * part; ++k) y[k] = a * x[k] + y[k];
    return;
  }
  for (; i < n + (FAULT == 4 ? 1 : 0); i += stride) {
    if (FAULT == 5) continue;
    if (FAULT == 9) y[i] += y[i];
    y[i] = FAULT == 6 ? a * x[i] : FAULT == 7 ? x[i] + y[i] : a * x[i] + y[i];
  }
}
#include "docs/course/exercises/grid_stride/call.h"

__global__ void block_sum(const float* x, float* sums, int n) {
  __shared__ float partial[FAULT == 6 ? 128 : 256];
  const int t = static_cast<int>(threadIdx.x);
  const int i = static_cast<int>(FAULT == 7 ? 0 : blockIdx.x) * 256 + t;
  partial[t] = FAULT == 3 || i < n ? x[i] : 0.0f;
  if (FAULT != 1) __syncthreads();
  for (int half = 128; half > (FAULT == 8 ? 1 : 0); half /= 2) {
    if (t < half) {
      partial[t] += partial[t + half];
      if (FAULT == 4) __syncthreads();
    }
    if (FAULT != 2 && FAULT != 4) __syncthreads();
  }
  if (FAULT == 5 || t == 0) sums[blockIdx.x] = FAULT == 9 ? 0 : partial[FAULT == 5 ? t : 0];
}
#include "docs/course/exercises/block_sum/call.h"

__global__ void row_sum(const float* x, float* sums, int columns) {
  const int row = static_cast<int>(FAULT == 4 ? 0 : blockIdx.x), t = static_cast<int>(threadIdx.x);
  float sum = 0;
  if (FAULT == 1) {  // each lane its own part of the row
    const int part = (columns + 31) / 32;
    for (int i = t * part; i < columns && i < t * part + part; ++i) sum += x[row * columns + i];
  } else {
    for (int i = t; i < columns + (FAULT == 2 ? 32 : 0); i += FAULT == 3 ? 1 << 20 : 32)
      sum += x[row * columns + i];
  }
  if (FAULT == 6 && t >= columns) return;
  for (unsigned lanes = 16; lanes > 0 && FAULT != 5; lanes /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, lanes);
  if (t == 0 && FAULT != 7) sums[blockIdx.x] = sum;
}
#include "docs/course/exercises/row_sum/call.h"

__global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][FAULT == 1 ? 32 : 33];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int left = static_cast<int>(blockIdx.x) * 32, top = static_cast<int>(blockIdx.y) * 32;
  for (int i = ty; i < 32; i += 8) {
    if (FAULT == 3 || (top + i < rows && left + tx < columns)) {
      if (FAULT == 2)
        y[(left + tx) * rows + top + i] = x[(top + i) * columns + left + tx];
      else
        tile[i][tx] = x[(top + i) * columns + left + tx];
    }
  }
  if (FAULT == 2 || FAULT == 8) return;
  if (FAULT != 4) __syncthreads();
  for (int i = ty; i < 32; i += 8) {
    if (left + i >= columns || top + tx >= rows) continue;
    if (FAULT == 7 && (left + 32 > columns || top + 32 > rows)) continue;
    const int to = (left + i) * rows + top + tx;
    y[FAULT == 6 ? (top + tx) * columns + left + i : to] = FAULT == 5 ? tile[i][tx] : tile[tx][i];
  }
}
#include "docs/course/exercises/transpose/call.h"

__global__ void softmax_rows(const float* x, float* y, int columns) {
  __shared__ float partial[128];
  const int t = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.x) * columns;
  float most = FAULT == 5 ? x[row + t] : -INFINITY;
  if (FAULT == 6 && t >= columns) return;
  for (int i = t; i < columns; i += 128) most = fmaxf(most, x[row + i]);
  partial[t] = most;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) partial[t] = fmaxf(partial[t], partial[t + half]);
    __syncthreads();
  }
  most = FAULT == 1 ? 0 : partial[0];
  if (FAULT != 2) __syncthreads();
  float sum = 0;
  for (int i = t; i < columns; i += 128) sum += expf(x[row + i] - most);
  partial[t] = sum;
  if (FAULT != 3) __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (t < half) partial[t] += partial[t + half];
    __syncthreads();
  }
  for (int i = t; i < columns && FAULT != 8; i += FAULT == 7 ? 1 << 20 : 128)
    y[row + i] = expf(x[row + i] - most) / (FAULT == 4 ? 1 : partial[0]);
}
#include "docs/course/exercises/softmax_rows/call.h"

__global__ void histogram(const int* values, float* counts, int n, int bins) {
  __shared__ float of_block[32];
  const int t = static_cast<int>(threadIdx.x), i = static_cast<int>(blockIdx.x * blockDim.x) + t;
  if (t < bins && FAULT != 3) of_block[t] = 0;
  if (FAULT != 4) __syncthreads();
  if (FAULT == 1) {
    if (i < n) of_block[values[i]] += 1;
  } else if (FAULT == 6 || i < n) {
    atomicAdd(&of_block[values[i]], 1.0f);
  }
  if (FAULT != 5) __syncthreads();
  if (t >= bins) return;
  if (FAULT == 2)
    counts[t] += of_block[t];
  else if (FAULT != 7)
    atomicAdd(&counts[t], of_block[t]);
}
#include "docs/course/exercises/histogram/call.h"

__global__ void stencil(const float* x, const float* w, float* y, int n) {
  __shared__ float tile[64 + 4];
  const int t = static_cast<int>(threadIdx.x), begin = static_cast<int>(blockIdx.x) * 64 - 2;
  if (FAULT == 5 && begin + 2 + t >= n) return;
  for (int k = t; k < 68; k += 64) {
    const bool inside = FAULT == 1 || (begin + k >= 0 && (FAULT == 2 || begin + k < n));
    if (FAULT == 3)
      tile[k] = k < 2 || k >= 66 || !inside ? 0.0f : x[begin + k];
    else if (FAULT != 8 || (k >= 2 && k < 66))
      tile[k] = inside ? x[begin + k] : 0.0f;
  }
  if (FAULT != 4) __syncthreads();
  if (begin + 2 + t >= n) return;
  float sum = 0;
  for (int k = 0; k < 5; ++k) sum += w[FAULT == 6 ? 4 - k : k] * tile[t + k + (FAULT == 9 ? 1 : 0)];
  y[begin + 2 + t] = FAULT == 7 ? 0 : sum;
}
#include "docs/course/exercises/stencil/call.h"

__global__ void matmul_tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[16][16], tile_b[16][16];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int row = static_cast<int>(blockIdx.y) * 16 + ty,
            column = static_cast<int>(blockIdx.x) * 16 + tx;
  float sum = 0;
  if (FAULT == 4) {  // without tiles
    for (int i = 0; i < k && row < m && column < n; ++i) sum += a[row * k + i] * b[i * n + column];
  }
  for (int begin = 0; begin < (FAULT == 4   ? 0
                               : FAULT == 6 ? 16
                               : FAULT == 7 ? k / 16 * 16
                                            : k);
       begin += 16) {
    tile_a[ty][tx] = row < m && (FAULT == 3 || begin + tx < k) ? a[row * k + begin + tx] : 0.0f;
    tile_b[ty][tx] = begin + ty < k && column < n ? b[(begin + ty) * n + column] : 0.0f;
    if (FAULT != 1) __syncthreads();
    if (FAULT == 8) sum = 0;
    for (int i = 0; i < 16; ++i)
      sum += tile_a[ty][i] * (FAULT == 5 ? tile_b[tx][i] : tile_b[i][tx]);
    if (FAULT != 2) __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = FAULT == 9 ? 0 : sum;
}
#include "docs/course/exercises/matmul_tiled/call.h"
}  // namespace OF_FAULT
#undef FAULT
