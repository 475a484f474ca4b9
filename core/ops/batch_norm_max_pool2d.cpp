// A batch norm and the max-pooling behind it, as one operator where the device has passes over
// both: instead of what the norm makes, the elements of x that win their windows are kept.
#include "core/ops/checks.h"
#include "core/ops/norm.h"
#include "core/ops/training_norm.h"
#include "core/pooled_batch_norms.h"

namespace whisker {

bool batch_norm_max_pool2d_is_joint(const Tensor& x, const BatchNormOperands& norm,
                                    const Pool2dOptions& pool) {
  const Activation activation = norm.options.activation.kind;
  return norm.options.training && !norm.residual.defined() &&
         (activation == Activation::none || activation == Activation::relu) &&
         backend_of(x.device()).pooled_batch_norms() &&
         takes_batch_norm(pool2d_geometry(PoolKind::max, x.shape(), pool, x.dtype()));
}

Tensor batch_norm_max_pool2d(const Tensor& x, const BatchNormOperands& norm,
                             const Pool2dOptions& pool) {
  if (!batch_norm_max_pool2d_is_joint(x, norm, pool)) {
    return max_pool2d(batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, norm.residual),
                      pool);
  }
  const TrainingNorm checked = training_norm(x, norm);
  const Pool2dGeometry geometry = pool2d_geometry(PoolKind::max, x.shape(), pool, x.dtype());
  const Shape windows{geometry.n, geometry.h_out, geometry.w_out, geometry.c};
  const Tensor y = empty(windows, x.options());
  PoolWinners winners;
  if (needs_grad(x) || needs_grad(norm.gamma) || needs_grad(norm.beta)) {
    winners = {.x = empty(windows, x.options()),
               .places = empty(windows, {.dtype = DType::u8, .device = x.device()})};
  }
  PooledBatchNorms* const norms = backend_of(x.device()).pooled_batch_norms();
  norms->normalise(checked, geometry, winners, y);
  note_pending(checked.running);
  record("batch_norm_max_pool2d", {&x, &norm.gamma, &norm.beta}, y,
         [norms, geometry, norm = SavedNorm(checked, needs_grad(x)), won = save(winners.x),
          places = save_if(needs_grad(x), winners.places)](Gradients& g) {
           g.once_only();
           const NormGradients wanted = wanted_gradients(g, 0);
           const PoolWinners saved{.x = won(g), .places = places(g)};
           norms->backward(norm(g), geometry, saved, parts_for(saved.x.device(), g), wanted);
         });
  return y;
}

}  // namespace whisker
