// Defaults of fused operations: the unfused operators.
#include "core/backend/backend.h"

#include "core/backend/unsummed_grads.h"

namespace whisker {
namespace {

// The convolution's result, which lives for one call.
Tensor before_pooling(const Conv2dGeometry& g, const Tensor& like) {
  const MemoryScope scope(MemoryCategory::workspace);
  return empty({g.n, g.h_out, g.w_out, g.c_out}, like.options());
}

Conv2dGeometry without_activation(Conv2dGeometry g) {
  g.activation = {};
  return g;
}

}  // namespace

void Backend::conv2d_pool(const Conv2dGeometry& g, const Pool2dGeometry& pool, const Tensor& x,
                          const Tensor& w, const Tensor& b, const Tensor& y,
                          const Tensor& workspace) {
  const Tensor z = before_pooling(g, y);
  {
    const MemoryScope scope(MemoryCategory::workspace);  // of what a backend makes of z, too
    conv2d(without_activation(g), x, w, b, z);
  }
  pool2d(pool, z, y, workspace);
  if (g.activation.kind != Activation::none) activation(g.activation, y, y);
}

void Backend::conv2d_pool_backward(const Conv2dGeometry& g, const Pool2dGeometry& pool,
                                   const Tensor& x, const Tensor& w, const Tensor& y,
                                   const Tensor& workspace, const Tensor& dy, const Tensor& dx,
                                   const Tensor& dw, const Tensor& db) {
  Tensor gradient = dy;  // of the windows' results, before the activation
  if (g.activation.kind != Activation::none) {
    const MemoryScope scope(MemoryCategory::workspace);
    gradient = empty(dy.shape(), dy.options());
    activation_backward(g.activation, y, dy, gradient);
  }
  const Tensor dz = before_pooling(g, dy);
  {
    const MemoryScope scope(MemoryCategory::workspace);
    pool2d_backward(pool, workspace, gradient, dz);
  }
  conv2d_backward(without_activation(g), x, w, {}, dz, dx, dw, db);
}

void Backend::update(const StepRule& rule, StepState* state, std::span<const OptimizerStep> runs) {
  for (const OptimizerStep& run : runs) add_squares(run.gradient, &state->square_sum);
  begin_update(rule, state);
  for (const OptimizerStep& run : runs) optimizer_step(run);
}

}  // namespace whisker
