// matmul and the fully connected layer.
#include "core/cpu/backend_class.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"

namespace whisker::cpu {

void CpuBackend::matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b,
                        const Tensor& y) {
  const float* left = f32(a);
  const float* right = f32(b);
  float* to = f32(y);
  const auto one_gemm = [&](int64_t i) {
    gemm({.transpose_a = g.transpose_a,
          .transpose_b = g.transpose_b,
          .m = g.m,
          .n = g.n,
          .k = g.k,
          .a = left + i * g.a_batch_stride,
          .lda = g.transpose_a ? g.m : g.k,
          .b = right + i * g.b_batch_stride,
          .ldb = g.transpose_b ? g.k : g.n,
          .c = to + i * g.m * g.n,
          .ldc = g.n});
  };
  // Many small gemms: one thread each; else the library splits each gemm over its threads.
  constexpr int64_t shared_gemm = int64_t{1} << 21;
  if (g.batch > 1 && g.m * g.n * g.k < shared_gemm) {
    const int64_t grain = pointwise_grain * 16 / (g.m * g.n * g.k + 1) + 1;
    parallel_ranges(g.batch, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) one_gemm(i);
    });
  } else {
    for (int64_t i = 0; i < g.batch; ++i) one_gemm(i);
  }
}

void CpuBackend::linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                        const Tensor& y) {
  gemm({.transpose_b = true,
        .m = g.rows,
        .n = g.out,
        .k = g.in,
        .a = f32(x),
        .lda = g.in,
        .b = f32(w),
        .ldb = g.in,
        .c = f32(y),
        .ldc = g.out});
  bias_activation(f32(y), f32(y), g.rows, g.out, g.bias ? f32(b) : nullptr, g.activation);
}

void CpuBackend::linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                                 const Tensor& y, const Tensor& dy, const Tensor& dx,
                                 const Tensor& dw, const Tensor& db) {
  const bool active = g.activation.kind != Activation::none;
  const Scratch<float> gradient = scratch<float>(active ? g.rows * g.out : 0);
  const float* dz = f32(dy);  // (rows, out), before the activation
  if (active) {
    activation_gradient(g.activation, f32(y), dz, gradient.data(), g.rows * g.out);
    dz = gradient.data();
  }
  if (db.defined()) column_sums(allocator_, dz, g.rows, g.out, f32(db));
  if (dw.defined()) {
    gemm({.transpose_a = true,
          .m = g.out,
          .n = g.in,
          .k = g.rows,
          .a = dz,
          .lda = g.out,
          .b = f32(x),
          .ldb = g.in,
          .c = f32(dw),
          .ldc = g.in});
  }
  if (dx.defined()) {
    gemm({.m = g.rows,
          .n = g.in,
          .k = g.out,
          .a = dz,
          .lda = g.out,
          .b = f32(w),
          .ldb = g.in,
          .c = f32(dx),
          .ldc = g.in});
  }
}

}  // namespace whisker::cpu
