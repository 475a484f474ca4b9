// A batch norm and the max-pooling behind it, as one operator where the device has passes over
// both: it keeps x at each window's argmax instead of the norm's result.
#include "core/autograd/op_attributes.h"
#include "core/ops/checks.h"
#include "core/ops/norm.h"
#include "core/ops/window.h"

namespace whisker {

bool batch_norm_max_pool2d_is_fused(const Tensor& x, const BatchNormOperands& norm,
                                    const Pool2dOptions& pool) {
  const Activation activation = norm.options.activation.kind;
  return norm.options.fusible() && !norm.residual.defined() &&
         (activation == Activation::none || activation == Activation::relu) &&
         backend_of(x.device()).fused_norm_pool() &&
         pool_takes_norm(pool2d_geometry(PoolKind::max, x.shape(), pool, x.dtype()));
}

Tensor batch_norm_max_pool2d(const Tensor& x, const BatchNormOperands& norm,
                             const Pool2dOptions& pool) {
  if (!batch_norm_max_pool2d_is_fused(x, norm, pool)) {
    return max_pool2d(batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, norm.residual),
                      pool);
  }
  const TrainingNorm checked = training_norm(x, norm);
  const Pool2dGeometry geometry = pool2d_geometry(PoolKind::max, x.shape(), pool, x.dtype());
  const Shape windows{geometry.n, geometry.h_out, geometry.w_out, geometry.c};
  const Tensor y = empty(windows, x.options());
  PoolArgmax argmax{.geometry = geometry};
  if (needs_grad(x) || needs_grad(norm.gamma) || needs_grad(norm.beta)) {
    argmax.x = empty(windows, x.options());
    argmax.positions = empty(windows, {.dtype = DType::u8, .device = x.device()});
  }
  FusedNormPool* const norms = backend_of(x.device()).fused_norm_pool();
  norms->normalise(checked, argmax, y);
  note_pending(checked.running);
  if (op_attributes) {
    *op_attributes = fmt::format("{}, {}", attributes_of(norm.options), attributes_of(geometry));
  }
  record("batch_norm_max_pool2d", {&x, &norm.gamma, &norm.beta}, y,
         [norms, geometry, norm = SavedNorm(checked, needs_grad(x)), x_at_argmax = save(argmax.x),
          positions = save_if(needs_grad(x), argmax.positions)](Gradients& g) {
           g.no_double_backward();
           const NormGrads wanted = wanted_gradients(g, 0);
           const PoolArgmax saved{
               .geometry = geometry, .x = x_at_argmax(g), .positions = positions(g)};
           norms->backward(norm(g), saved, grads_for(saved.x.device(), g), wanted);
         });
  return y;
}

}  // namespace whisker
