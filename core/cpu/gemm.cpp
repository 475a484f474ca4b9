// matmul and the fully connected layer. bf16 is the CPU's own where it has that
// (dnnl_native_bf16), else it goes through f32.
#include "core/backend/gemm.h"

#include "core/cpu/cpu_kernels.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"

#if WHISKER_ONEDNN
#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/onednn/dnnl_gemm.h"
#endif

#include <utility>

namespace whisker::cpu {
namespace {

/// The gemms of a dense layer: y = x w^T, dw = dz^T x and dx = dz w.
MatmulGeometry for_y(const LinearGeometry& g) {
  return {.m = g.rows, .n = g.out, .k = g.in, .transpose_b = true};
}
MatmulGeometry for_dw(const LinearGeometry& g) {
  return {.m = g.out, .n = g.in, .k = g.rows, .transpose_a = true};
}
MatmulGeometry for_dx(const LinearGeometry& g) {
  return {.m = g.rows, .n = g.in, .k = g.out};
}

/// One gemm of contiguous f32 matrices.
void multiply(const MatmulGeometry& g, const float* a, const float* b, float* y) {
  gemm({.size = {g.m, g.n, g.k},
        .a = {a, g.transpose_a ? g.m : g.k, g.transpose_a},
        .b = {b, g.transpose_b ? g.k : g.n, g.transpose_b},
        .c = {y, g.n}});
}

#if WHISKER_ONEDNN
GemmRequest bf16_request(const Gemm& g) {
  return {.geometry = {.m = g.size.m,
                       .n = g.size.n,
                       .k = g.size.k,
                       .transpose_a = g.a.is_transposed,
                       .transpose_b = g.b.is_transposed},
          .y = DType::f32};
}
#endif

class Gemms final : public GemmKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  // bf16 is the CPU's own, which sums in f32, where it has that for the gemm.
  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override {
#if WHISKER_ONEDNN
    if (!in_f32("matmul", y) && native({g})) return native_gemm({g}, a.raw(), b.raw(), y.raw());
#endif
    ViaF32 t(device_.backend, "matmul", y);
    const float *left = f32(t.in(a)), *right = f32(t.in(b));
    float* to = f32(t.out(y));
    const auto one_gemm = [&](int64_t i) {
      multiply(g, left + i * g.a_batch_stride, right + i * g.b_batch_stride, to + i * g.m * g.n);
    };
    // Many small gemms: one thread each; else the library splits each gemm over its threads.
    constexpr int64_t shared_gemm = int64_t{1} << 21;
    if (g.batch > 1 && g.m * g.n * g.k < shared_gemm) {
      const int64_t grain = pointwise_grain * 16 / (g.m * g.n * g.k + 1) + 1;
      parallel_each(g.batch, grain, [&](int64_t i, int) { one_gemm(i); });
    } else {
      for (int64_t i = 0; i < g.batch; ++i) one_gemm(i);
    }
  }

  void linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) override {
#if WHISKER_ONEDNN
    const GemmRequest request{for_y(g), DType::f32};
    if (!in_f32("linear", y) && native(request)) {
      const Scratch<float> z = scratch<float>(g.rows * g.out);  // rounded once, after bias and f
      native_gemm(request, in.x.raw(), in.w.raw(), z.data());
      return bias_activation(z.data(), bf16(y), g.rows, g.out, g.bias ? bf16(in.b) : nullptr,
                             g.activation);
    }
#endif
    ViaF32 t(device_.backend, "linear", y);
    float* const to = f32(t.out(y));
    multiply(for_y(g), f32(t.in(in.x)), f32(t.in(in.w)), to);
    bias_activation(to, to, g.rows, g.out, g.bias ? f32(t.in(in.b)) : nullptr, g.activation);
  }

  void linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
#if WHISKER_ONEDNN
    if (!in_f32("linear", dy) && (!out.dw.defined() || native({for_dw(g)})) &&
        (!out.dx.defined() || native({for_dx(g)}))) {
      return gradients<bf16_t>(g, saved, dy, out,
                               [&](const MatmulGeometry& of, const bf16_t* dz, const Tensor& b,
                                   const Tensor& y) { native_gemm({of}, dz, b.raw(), y.raw()); });
    }
#endif
    ViaF32 t(device_.backend, "linear", dy);
    gradients<float>(g, t.in(saved), t.in(dy), t.out(out),
                     [](const MatmulGeometry& of, const float* dz, const Tensor& b,
                        const Tensor& y) { multiply(of, dz, f32(b), f32(y)); });
  }

 private:
  template <class T, class Multiply>
  void gradients(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                 const AffineGrads& out, const Multiply& multiplied) {
    const auto at = [](const Tensor& t) { return static_cast<T*>(t.raw()); };
    const bool active = g.activation.kind != Activation::none;
    const Scratch<T> gradient = scratch<T>(active ? g.rows * g.out : 0);
    const T* dz = at(dy);  // (rows, out), before the activation
    if (active) {
      activation_gradient(g.activation, at(saved.y), dz, gradient.data(), g.rows * g.out);
      dz = gradient.data();
    }
    if (out.db.defined()) column_sums(allocator_, dz, g.rows, g.out, at(out.db));
    if (out.dw.defined()) multiplied(for_dw(g), dz, saved.x, out.dw);
    if (out.dx.defined()) multiplied(for_dx(g), dz, saved.w, out.dx);
  }

#if WHISKER_ONEDNN
  void native_gemm(const GemmRequest& request, const void* a, const void* b, void* y) {
    device_.gemm_algorithms->run(allocator_, request, a, b, y);
  }
#endif
};

}  // namespace

#if WHISKER_ONEDNN
bool CpuKernels::native(const GemmRequest& r) {
  const MatmulGeometry& g = r.geometry;
  constexpr int64_t smallest = 4096;  // below, f32 in plain loops is faster
  return options_.native_bf16 && dnnl_native_bf16() && g.batch * g.m * g.n * g.k > smallest &&
         device_.gemm_algorithms->has(r);
}

void CpuKernels::gemm_in_bf16(const Gemm& g) {
  if (bf16_gemm_bytes(g) == 0) return gemm(g);
  const Scratch<bf16_t> a = scratch<bf16_t>(g.size.m * g.size.k);
  const Scratch<bf16_t> b = scratch<bf16_t>(g.size.k * g.size.n);
  const auto round = [](const GemmOperand& x, int64_t rows, int64_t columns, bf16_t* to) {
    if (x.is_transposed) std::swap(rows, columns);  // in memory
    parallel_each(rows, rows_grain(columns), [&](int64_t r, int) {
      round_row(x.data + r * x.stride, to + r * columns, columns);
    });
  };
  round(g.a, g.size.m, g.size.k, a.data());
  round(g.b, g.size.k, g.size.n, b.data());
  device_.gemm_algorithms->run(allocator_, bf16_request(g), a.data(), b.data(), g.c.data);
}

int64_t CpuKernels::bf16_gemm_bytes(const Gemm& g) {
  if (g.c.beta != 0 || g.c.stride != g.size.n || !native(bf16_request(g))) return 0;
  return (g.size.m + g.size.n) * g.size.k * static_cast<int64_t>(sizeof(bf16_t)) +
         device_.gemm_algorithms->scratch_bytes(bf16_request(g));
}
#else
void CpuKernels::gemm_in_bf16(const Gemm& g) {
  gemm(g);
}
int64_t CpuKernels::bf16_gemm_bytes(const Gemm&) {
  return 0;
}
#endif

std::shared_ptr<GemmKernels> make_gemm(CpuDevice& device) {
  return std::make_shared<Gemms>(device);
}

}  // namespace whisker::cpu
