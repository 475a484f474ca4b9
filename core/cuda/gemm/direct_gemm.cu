// One thread per element of y loops over k.
#include "core/cuda/device_code/pdl.cuh"
#include "core/cuda/device_code/types.cuh"
#include "core/cuda/gemm/cublaslt_gemm.h"

namespace whisker::cuda {
namespace {

/// Strides between matrices, along m or n, and along k.
struct Strides {
  int64_t batch, outer, k;
};

/// bias (n) may be null; it and relu are applied before the only rounding.
template <class T>
__global__ void gemm_kernel(int64_t count, int64_t m, int64_t n, int64_t k, Strides a_strides,
                            Strides b_strides, const T* a, const T* b, const T* bias, bool relu,
                            T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += step) {
    const int64_t column = at % n;
    const int64_t row = at / n % m;
    const int64_t i = at / (n * m);
    const T* left = a + i * a_strides.batch + row * a_strides.outer;
    const T* right = b + i * b_strides.batch + column * b_strides.outer;
    float sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      sum += to_f32(left[j * a_strides.k]) * to_f32(right[j * b_strides.k]);
    }
    if (bias) sum += to_f32(bias[column]);
    if (relu) sum = sum < 0 ? 0 : sum;  // keeps NaN
    y[at] = from_f32<T>(sum);
  }
}

}  // namespace

void direct_gemm(const GemmRequest& r, const GemmOperands& operands, cudaStream_t stream) {
  const int64_t count = r.batch * r.m * r.n;
  const Strides a_strides =
      r.transpose_a ? Strides{r.a_stride, 1, r.m} : Strides{r.a_stride, r.k, 1};
  const Strides b_strides =
      r.transpose_b ? Strides{r.b_stride, r.k, 1} : Strides{r.b_stride, 1, r.n};
  visit_real(r.dtype, [&]<class T>() {
    launch_kernel(stream, "direct_gemm", grid_for(count), gemm_kernel<T>, count, r.m, r.n, r.k,
                  a_strides, b_strides, operands.a, operands.b, r.bias ? operands.bias : nullptr,
                  r.relu, operands.y);
  });
}

}  // namespace whisker::cuda
