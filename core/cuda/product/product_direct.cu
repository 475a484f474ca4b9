// One thread per element of y walks along k.
#include "core/cuda/device/launch.h"
#include "core/cuda/device/types.cuh"
#include "core/cuda/gpu/check.h"
#include "core/cuda/product/product_direct.h"

namespace whisker::cuda {
namespace {

/// Steps between neighbours along m or n and along k; `batch` between matrices.
struct Steps {
  int64_t batch, outer, k;
};

/// bias (n) may be null; it and relu are applied before the only rounding.
template <class T>
__global__ void product_kernel(int64_t count, int64_t m, int64_t n, int64_t k, Steps a_steps,
                               Steps b_steps, const T* a, const T* b, const T* bias, bool relu,
                               T* y) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += step) {
    const int64_t column = at % n;
    const int64_t row = at / n % m;
    const int64_t i = at / (n * m);
    const T* left = a + i * a_steps.batch + row * a_steps.outer;
    const T* right = b + i * b_steps.batch + column * b_steps.outer;
    float sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      sum += to_f32(left[j * a_steps.k]) * to_f32(right[j * b_steps.k]);
    }
    if (bias) sum += to_f32(bias[column]);
    if (relu) sum = sum < 0 ? 0 : sum;  // this way round a NaN stays a NaN
    y[at] = from_f32<T>(sum);
  }
}

}  // namespace

void direct_product(const ProductRequest& r, const ProductOperands& operands, cudaStream_t stream) {
  const int64_t count = r.batch * r.m * r.n;
  const Steps a_steps = r.transpose_a ? Steps{r.a_stride, 1, r.m} : Steps{r.a_stride, r.k, 1};
  const Steps b_steps = r.transpose_b ? Steps{r.b_stride, r.k, 1} : Steps{r.b_stride, 1, r.n};
  const bool bias = r.epilogue == ProductEpilogue::bias || r.epilogue == ProductEpilogue::bias_relu;
  const bool relu = r.epilogue == ProductEpilogue::relu || r.epilogue == ProductEpilogue::bias_relu;
  visit_real(r.dtype, [&]<class T>() {
    product_kernel<T><<<grid_for(count), block_threads, 0, stream>>>(
        count, r.m, r.n, r.k, a_steps, b_steps, static_cast<const T*>(operands.a),
        static_cast<const T*>(operands.b), bias ? static_cast<const T*>(operands.bias) : nullptr,
        relu, static_cast<T*>(operands.y));
  });
  check_launch("product");
}

}  // namespace whisker::cuda
