// The dense layer: product, bias and activation in one operator.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/gemm.h"
#include "core/ops/checks.h"
#include "core/ops/product.h"
#include "core/ops/window.h"

namespace whisker {

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, ActivationSpec f) {
  if (!grad_from_output(f.kind)) return activation(linear(x, w, b), f);
  check_rank("linear", "w", w, 2);
  check_alike("linear", "x", x, "w", w);
  check_computes("linear", "x", x);
  check_activation("linear", f);
  if (x.rank() < 1 || x.extent(-1) != w.extent(1)) {
    fail(ErrorKind::usage, "linear: expected x with {} features on its last axis: x {}, w {}.",
         w.extent(1), x.shape(), w.shape());
  }
  check_not_empty("linear", "x", x);
  check_not_empty("linear", "w", w);
  if (b.defined()) {
    check_vector("linear", "b", b, w.extent(0), w, "w");
    check_alike("linear", "x", x, "b", b);
  }
  const LinearGeometry geometry{.rows = x.count() / x.extent(-1),
                                .in = w.extent(1),
                                .out = w.extent(0),
                                .bias = b.defined(),
                                .activation = f,
                                .dtype = x.dtype()};
  const Tensor y = empty(x.shape().with(-1, geometry.out), x.options());  // (..., out)
  backend_of(x.device()).gemm().linear(geometry, {.x = x, .w = w, .b = b}, y);
  if (op_attributes && f.kind != Activation::none) *op_attributes = attributes_of(f);
  record("linear", {&x, &w, &b}, y,
         [geometry, x = save_if(needs_grad(w), x), w = save_if(needs_grad(x), w),
          y = f.kind == Activation::none ? Saved() : save_output(y)](Gradients& g) {
           const Tensor& dy = g.dy();
           if (g.recording()) {
             if (y.defined()) g.no_double_backward("Use fuse: false to differentiate it twice.");
             const Tensor flat = reshape(dy, {geometry.rows, geometry.out});
             if (g.needs(0)) {
               g.accumulate_grad(
                   0, reshape(product(flat, w(g), false, false), dy.shape().with(-1, geometry.in)));
             }
             if (g.needs(1)) {
               g.accumulate_grad(
                   1, product(flat, reshape(x(g), {geometry.rows, geometry.in}), true, false));
             }
             if (g.needs(2)) g.accumulate_grad(2, sum(flat, {0}));
             return;
           }
           const Tensor dx = g.grad_buffer_if_needed(0);
           const Tensor dw = g.grad_buffer_if_needed(1);
           const Tensor db = g.grad_buffer_if_needed(2);
           backend_of(dy.device())
               .gemm()
               .linear_backward(geometry, {.x = x(g), .w = w(g), .y = y(g)}, dy,
                                {.dx = dx, .dw = dw, .db = db});
         });
  return y;
}

}  // namespace whisker
