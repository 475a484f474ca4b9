// Convolution with bias and activation, and its gradients: oneDNN in the layouts it likes, else
// gemms over plain memory.
#include "core/cpu/backend_class.h"
#include "core/cpu/kernels/conv2d_gemm.h"
#include "core/cpu/support/rows.h"

#if WHISKER_ONEDNN
#include "core/cpu/kernels/conv2d_dnnl.h"
#endif

namespace whisker::cpu {

void CpuBackend::conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                        const Tensor& y) {
#if WHISKER_ONEDNN
  if (Conv2dDnnl(*algorithms_, allocator_, options_, g).forward(x, w, b, y)) return;
#endif
  conv2d_gemm_forward(allocator_, g, f32(x), f32(w), f32(y));
  bias_activation(f32(y), f32(y), g.n * g.h_out * g.w_out, g.c_out, g.bias ? f32(b) : nullptr,
                  g.activation);
}

void CpuBackend::conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                 const Tensor& y, const Tensor& dy, const Tensor& dx,
                                 const Tensor& dw, const Tensor& db) {
#if WHISKER_ONEDNN
  if (Conv2dDnnl(*algorithms_, allocator_, options_, g).backward(x, w, y, dy, dx, dw, db)) return;
#endif
  const int64_t rows = g.n * g.h_out * g.w_out;
  const bool active = g.activation.kind != Activation::none;
  const Scratch<float> gradient = scratch<float>(active ? rows * g.c_out : 0);
  const float* dz = f32(dy);  // (N, h_out, w_out, c_out), before the activation
  if (active) {
    activation_gradient(g.activation, f32(y), dz, gradient.data(), rows * g.c_out);
    dz = gradient.data();
  }
  if (db.defined()) column_sums(allocator_, dz, rows, g.c_out, f32(db));
  if (dw.defined()) conv2d_gemm_backward_weights(allocator_, g, f32(x), dz, f32(dw));
  if (dx.defined()) conv2d_gemm_backward_input(allocator_, g, f32(w), dz, f32(dx));
}

}  // namespace whisker::cpu
