// matmul and the fully connected layer. bf16 is the CPU's own where it has that
// (dnnl_native_bf16), else it goes through f32.
#include "core/backend/gemm.h"
#include "core/cpu/cpu_kernels.h"
#include "core/cpu/onednn/gemm.h"
#include "core/cpu/support/parallel.h"
#include "core/cpu/support/rows.h"

#if WHISKER_ONEDNN
#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/onednn/dnnl_gemm.h"
#endif

namespace whisker::cpu {
namespace {

class Gemms final : public GemmKernels, CpuKernels {
 public:
  using CpuKernels::CpuKernels;

  void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) override {
    if (!in_f32("matmul", y)) {
#if WHISKER_ONEDNN
      if (native_matmul(g, a, b, y)) return;
#endif
      return via_f32([&](ViaF32& t) { matmul(g, t.in(a), t.in(b), t.out(y)); });
    }
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

  void linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) override {
    if (!in_f32("linear", y)) {
#if WHISKER_ONEDNN
      if (native_linear(g, in, y)) return;
#endif
      return via_f32([&](ViaF32& t) { linear(as_f32(g), t.in(in), t.out(y)); });
    }
    gemm({.transpose_b = true,
          .m = g.rows,
          .n = g.out,
          .k = g.in,
          .a = f32(in.x),
          .lda = g.in,
          .b = f32(in.w),
          .ldb = g.in,
          .c = f32(y),
          .ldc = g.out});
    bias_activation(f32(y), f32(y), g.rows, g.out, g.bias ? f32(in.b) : nullptr, g.activation);
  }

  void linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    if (!in_f32("linear", dy)) {
#if WHISKER_ONEDNN
      if (native_linear_backward(g, saved, dy, out)) return;
#endif
      return via_f32(
          [&](ViaF32& t) { linear_backward(as_f32(g), t.in(saved), t.in(dy), t.out(out)); });
    }
    const bool active = g.activation.kind != Activation::none;
    const Scratch<float> gradient = scratch<float>(active ? g.rows * g.out : 0);
    const float* dz = f32(dy);  // (rows, out), before the activation
    if (active) {
      activation_gradient(g.activation, f32(saved.y), dz, gradient.data(), g.rows * g.out);
      dz = gradient.data();
    }
    if (out.db.defined()) column_sums(allocator_, dz, g.rows, g.out, f32(out.db));
    if (out.dw.defined()) {
      gemm({.transpose_a = true,
            .m = g.out,
            .n = g.in,
            .k = g.rows,
            .a = dz,
            .lda = g.out,
            .b = f32(saved.x),
            .ldb = g.in,
            .c = f32(out.dw),
            .ldc = g.in});
    }
    if (out.dx.defined()) {
      gemm({.m = g.rows,
            .n = g.in,
            .k = g.out,
            .a = dz,
            .lda = g.out,
            .b = f32(saved.w),
            .ldb = g.in,
            .c = f32(out.dx),
            .ldc = g.in});
    }
  }

#if WHISKER_ONEDNN
 private:
  // In the CPU's own bf16, which sums in f32; false, with nothing done, where it has none or not
  // for this.
  bool native_matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b, const Tensor& y) {
    const bool shares_a = g.batch > 1 && g.a_batch_stride == 0;
    const bool shares_b = g.batch > 1 && g.b_batch_stride == 0;
    const GemmRequest request{.batch = g.batch,
                              .m = g.m,
                              .n = g.n,
                              .k = g.k,
                              .transpose_a = g.transpose_a,
                              .transpose_b = g.transpose_b,
                              .shares_a = shares_a,
                              .shares_b = shares_b};
    if (!native(request)) return false;
    device_.gemm_algorithms->run(allocator_, request, a.raw(), b.raw(), y.raw());
    return true;
  }

  bool native_linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) {
    const GemmRequest request{
        .m = g.rows, .n = g.out, .k = g.in, .transpose_b = true, .y = DType::f32};
    if (!native(request)) return false;
    const Scratch<float> z = scratch<float>(g.rows * g.out);  // rounded once, after bias and f
    device_.gemm_algorithms->run(allocator_, request, in.x.raw(), in.w.raw(), z.data());
    bias_activation(z.data(), bf16(y), g.rows, g.out, g.bias ? bf16(in.b) : nullptr, g.activation);
    return true;
  }

  bool native_linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                              const AffineGrads& out) {
    const GemmRequest for_w{.m = g.out, .n = g.in, .k = g.rows, .transpose_a = true};
    const GemmRequest for_x{.m = g.rows, .n = g.in, .k = g.out};
    if ((out.dw.defined() && !native(for_w)) || (out.dx.defined() && !native(for_x))) return false;
    const bool active = g.activation.kind != Activation::none;
    const Scratch<bf16_t> gradient = scratch<bf16_t>(active ? g.rows * g.out : 0);
    const bf16_t* dz = bf16(dy);  // (rows, out), before the activation
    if (active) {
      activation_gradient(g.activation, bf16(saved.y), dz, gradient.data(), g.rows * g.out);
      dz = gradient.data();
    }
    if (out.db.defined()) column_sums(allocator_, dz, g.rows, g.out, bf16(out.db));
    GemmAlgorithms& gemms = *device_.gemm_algorithms;
    if (out.dw.defined()) gemms.run(allocator_, for_w, dz, saved.x.raw(), out.dw.raw());
    if (out.dx.defined()) gemms.run(allocator_, for_x, dz, saved.w.raw(), out.dx.raw());
    return true;
  }
#endif
};

}  // namespace

#if WHISKER_ONEDNN
bool CpuKernels::native(const GemmRequest& r) {
  constexpr int64_t smallest = 4096;  // below, f32 in plain loops is faster
  return options_.native_bf16 && dnnl_native_bf16() && r.batch * r.m * r.n * r.k > smallest &&
         device_.gemm_algorithms->has(r);
}
#endif

std::shared_ptr<GemmKernels> make_gemm(CpuDevice& device) {
  return std::make_shared<Gemms>(device);
}

}  // namespace whisker::cpu
