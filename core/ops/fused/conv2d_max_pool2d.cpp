// Convolution, activation and max-pooling as one operator. Unfused, the convolution's result lives
// for one call, too, and the activation follows the pooling: see is_monotonic.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/convolution.h"
#include "core/backend/elementwise.h"
#include "core/backend/pooling.h"
#include "core/ops/conv2d.h"
#include "core/ops/window.h"

namespace whisker {
namespace {

// The convolution's result before pooling and activation, which lives for one call.
Tensor before_pooling(const Conv2dGeometry& g, const Tensor& like) {
  const MemoryScope scope(MemoryCategory::workspace);
  return empty({g.n, g.h_out, g.w_out, g.c_out}, like.options());
}

Conv2dGeometry without_activation(Conv2dGeometry g) {
  g.activation = {};
  return g;
}

/// Null where the operator runs unfused.
ConvPoolKernels* fused_kernels(Device device, const ConvPoolGeometry& g) {
  ConvPoolKernels* const kernels = backend_of(device).conv_pool();
  return kernels && kernels->takes(g) ? kernels : nullptr;
}

void unfused_forward(const ConvPoolGeometry& g, const AffineInputs& in, const Tensor& y,
                     const Tensor& workspace) {
  Backend& backend = backend_of(y.device());
  const Tensor z = before_pooling(g.conv, y);
  {
    const MemoryScope scope(MemoryCategory::workspace);  // of what a backend makes of z, too
    backend.convolution().conv2d(without_activation(g.conv), in, z);
  }
  backend.pooling().pool2d(g.pool, z, y, workspace);
  const ActivationSpec f = g.conv.activation;
  if (f.kind != Activation::none) backend.elementwise().activation(f, y, y);
}

void unfused_backward(const ConvPoolGeometry& g, const ConvPoolSaved& saved, const Tensor& dy,
                      const AffineGrads& out) {
  Backend& backend = backend_of(dy.device());
  Tensor gradient = dy;  // of the windows' results, before the activation
  if (const ActivationSpec f = g.conv.activation; f.kind != Activation::none) {
    const MemoryScope scope(MemoryCategory::workspace);
    gradient = empty(dy.shape(), dy.options());
    backend.elementwise().activation_backward(f, saved.y, dy, gradient);
  }
  const Tensor dz = before_pooling(g.conv, dy);
  {
    const MemoryScope scope(MemoryCategory::workspace);
    backend.pooling().pool2d_backward(g.pool, saved.workspace, gradient, dz);
  }
  backend.convolution().conv2d_backward(without_activation(g.conv), {.x = saved.x, .w = saved.w},
                                        dz, out);
}

}  // namespace

Tensor conv2d_max_pool2d(const Conv2dGeometry& geometry, const Pool2dOptions& options,
                         const Tensor& x, const Tensor& w, const Tensor& b) {
  const Pool2dGeometry pool =
      pool2d_geometry(PoolKind::max, {geometry.n, geometry.h_out, geometry.w_out, geometry.c_out},
                      options, geometry.dtype);
  Backend& backend = backend_of(x.device());
  const Tensor y = empty({pool.n, pool.h_out, pool.w_out, pool.c}, x.options());
  Tensor workspace;
  if (needs_grad(x) || needs_grad(w) || needs_grad(b)) {
    if (const int64_t bytes = backend.pooling().workspace_bytes(pool); bytes > 0) {
      workspace = empty({bytes}, {.dtype = DType::u8, .device = x.device()});
    }
  }
  const ConvPoolGeometry both{geometry, pool};
  const AffineInputs in{.x = x, .w = w, .b = b};
  if (ConvPoolKernels* const fused = fused_kernels(x.device(), both)) {
    fused->forward(both, in, y, workspace);
  } else {
    unfused_forward(both, in, y, workspace);
  }
  const bool active = geometry.activation.kind != Activation::none;
  if (op_attributes) {
    *op_attributes = fmt::format("{}, max_pool2d, {}, convolved {} {}", attributes_of(geometry),
                                 attributes_of(pool), geometry.h_out, geometry.w_out);
  }
  record("conv2d_max_pool2d", {&x, &w, &b}, y,
         [both, x = save_if(needs_grad(w), x), w = save_if(needs_grad(x), w),
          y = active ? save_output(y) : Saved(), workspace = save(workspace)](Gradients& g) {
           g.no_double_backward();
           const Tensor dx = g.grad_buffer_if_needed(0);
           const Tensor dw = g.grad_buffer_if_needed(1);
           const Tensor db = g.grad_buffer_if_needed(2);
           const Tensor at_x = x(g), at_w = w(g), result = y(g), argmax = workspace(g);
           const ConvPoolSaved saved{.x = at_x, .w = at_w, .y = result, .workspace = argmax};
           const AffineGrads out{.dx = dx, .dw = dw, .db = db};
           if (ConvPoolKernels* const fused = fused_kernels(g.dy().device(), both)) {
             fused->backward(both, saved, g.dy(), out);
           } else {
             unfused_backward(both, saved, g.dy(), out);
           }
         });
  return y;
}

}  // namespace whisker
