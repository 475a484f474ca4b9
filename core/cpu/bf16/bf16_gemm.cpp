// Gemms and convolutions in bf16: the CPU's own where it has them (dnnl_native_bf16), which sum
// in f32, else through f32.
#include "core/cpu/bf16/bf16.h"
#include "core/cpu/bf16/bf16_via_f32.h"

#if WHISKER_ONEDNN
#include "core/cpu/kernels/conv2d_dnnl.h"
#include "core/cpu/onednn/dnnl_api.h"
#include "core/cpu/onednn/dnnl_gemm.h"
#include "core/cpu/support/rows.h"
#endif

namespace whisker::cpu {

#if WHISKER_ONEDNN

bool Bf16Backend::native(const GemmRequest& r) {
  constexpr int64_t smallest = 4096;  // below, f32 in plain loops is faster
  return options_.native_bf16 && dnnl_native_bf16() && r.batch * r.m * r.n * r.k > smallest &&
         gemms_->has(r);
}

bool Bf16Backend::native_conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                const Tensor& b, const Tensor& y) {
  return options_.native_bf16 && dnnl_native_bf16() &&
         Conv2dDnnl(*algorithms_, allocator_, options_, g).forward(x, w, b, y);
}

bool Bf16Backend::native_conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                         const Tensor& y, const Tensor& dy, const Tensor& dx,
                                         const Tensor& dw, const Tensor& db) {
  return options_.native_bf16 && dnnl_native_bf16() &&
         Conv2dDnnl(*algorithms_, allocator_, options_, g).backward(x, w, y, dy, dx, dw, db);
}

bool Bf16Backend::native_matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b,
                                const Tensor& y) {
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
  gemms_->run(allocator_, request, a.raw(), b.raw(), y.raw());
  return true;
}

bool Bf16Backend::native_linear(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                                const Tensor& b, const Tensor& y) {
  const GemmRequest request{
      .m = g.rows, .n = g.out, .k = g.in, .transpose_b = true, .y = DType::f32};
  if (!native(request)) return false;
  const Scratch<float> z = scratch<float>(g.rows * g.out);  // rounded once, after bias and f
  gemms_->run(allocator_, request, x.raw(), w.raw(), z.data());
  bias_activation(z.data(), bf16(y), g.rows, g.out, g.bias ? bf16(b) : nullptr, g.activation);
  return true;
}

bool Bf16Backend::native_linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                                         const Tensor& y, const Tensor& dy, const Tensor& dx,
                                         const Tensor& dw, const Tensor& db) {
  const GemmRequest for_w{.m = g.out, .n = g.in, .k = g.rows, .transpose_a = true};
  const GemmRequest for_x{.m = g.rows, .n = g.in, .k = g.out};
  if ((dw.defined() && !native(for_w)) || (dx.defined() && !native(for_x))) return false;
  const bool active = g.activation.kind != Activation::none;
  const Scratch<bf16_t> gradient = scratch<bf16_t>(active ? g.rows * g.out : 0);
  const bf16_t* dz = bf16(dy);  // (rows, out), before the activation
  if (active) {
    activation_gradient(g.activation, bf16(y), dz, gradient.data(), g.rows * g.out);
    dz = gradient.data();
  }
  if (db.defined()) column_sums(allocator_, dz, g.rows, g.out, bf16(db));
  if (dw.defined()) gemms_->run(allocator_, for_w, dz, x.raw(), dw.raw());
  if (dx.defined()) gemms_->run(allocator_, for_x, dz, w.raw(), dx.raw());
  return true;
}

#else

bool Bf16Backend::native_conv2d(const Conv2dGeometry&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&) {
  return false;
}
bool Bf16Backend::native_conv2d_backward(const Conv2dGeometry&, const Tensor&, const Tensor&,
                                         const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                         const Tensor&) {
  return false;
}
bool Bf16Backend::native_matmul(const MatmulGeometry&, const Tensor&, const Tensor&,
                                const Tensor&) {
  return false;
}
bool Bf16Backend::native_linear(const LinearGeometry&, const Tensor&, const Tensor&, const Tensor&,
                                const Tensor&) {
  return false;
}
bool Bf16Backend::native_linear_backward(const LinearGeometry&, const Tensor&, const Tensor&,
                                         const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                         const Tensor&) {
  return false;
}

#endif

void Bf16Backend::matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("matmul", y)) return CpuBackend::matmul(g, a, b, y);
  if (native_matmul(g, a, b, y)) return;
  widened(*this, [&](Widened& t) { CpuBackend::matmul(g, t.in(a), t.in(b), t.out(y)); });
}

void Bf16Backend::linear(const LinearGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("linear", y)) return CpuBackend::linear(g, x, w, b, y);
  if (native_linear(g, x, w, b, y)) return;
  widened(*this,
          [&](Widened& t) { CpuBackend::linear(as_f32(g), t.in(x), t.in(w), t.in(b), t.out(y)); });
}

void Bf16Backend::linear_backward(const LinearGeometry& g, const Tensor& x, const Tensor& w,
                                  const Tensor& y, const Tensor& dy, const Tensor& dx,
                                  const Tensor& dw, const Tensor& db) {
  if (in_f32("linear", dy)) return CpuBackend::linear_backward(g, x, w, y, dy, dx, dw, db);
  if (native_linear_backward(g, x, w, y, dy, dx, dw, db)) return;
  widened(*this, [&](Widened& t) {
    CpuBackend::linear_backward(as_f32(g), t.in(x), t.in(w), t.in(y), t.in(dy), t.out(dx),
                                t.out(dw), t.out(db));
  });
}

void Bf16Backend::conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& y) {
  if (in_f32("conv2d", y)) return CpuBackend::conv2d(g, x, w, b, y);
  if (native_conv2d(g, x, w, b, y)) return;
  widened(*this,
          [&](Widened& t) { CpuBackend::conv2d(as_f32(g), t.in(x), t.in(w), t.in(b), t.out(y)); });
}

void Bf16Backend::conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                  const Tensor& y, const Tensor& dy, const Tensor& dx,
                                  const Tensor& dw, const Tensor& db) {
  if (in_f32("conv2d", dy)) return CpuBackend::conv2d_backward(g, x, w, y, dy, dx, dw, db);
  if (native_conv2d_backward(g, x, w, y, dy, dx, dw, db)) return;
  widened(*this, [&](Widened& t) {
    CpuBackend::conv2d_backward(as_f32(g), t.in(x), t.in(w), t.in(y), t.in(dy), t.out(dx),
                                t.out(dw), t.out(db));
  });
}

}  // namespace whisker::cpu
