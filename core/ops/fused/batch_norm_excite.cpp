// A batch norm and the squeeze-and-excitation behind it, as two nodes that share the factors where
// the device's batch norm multiplies: excite hands on the gradient of its result as it is, and the
// norm's backward reads it with the factors and the mean's gradient. None is written out as large
// as the image.
#include "core/autograd/op_attributes.h"
#include "core/ops/checks.h"
#include "core/ops/norm.h"

#include <functional>
#include <memory>
#include <utility>

namespace whisker {

bool batch_norm_excite_is_fused(const Tensor& x, const BatchNormOperands& norm) {
  return norm.options.fusible() && !norm.residual.defined() && x.rank() == 4 &&
         batch_norm_computes(norm.options.activation, true) &&
         backend_of(x.device()).normalization().scales_grads(checked_norm(x, norm).geometry);
}

Tensor batch_norm_excite(const Tensor& x, const BatchNormOperands& norm,
                         const std::function<Tensor(const Tensor&)>& factors) {
  if (!batch_norm_excite_is_fused(x, norm)) {
    const Tensor z = batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, norm.residual);
    return mul(z, factors(mean(z, {1, 2}, {.keep_axes = true})));
  }
  const TrainingNorm checked = training_norm(x, norm);
  const Tensor z = normalise_batch(checked);
  const Tensor squeezed = [&] {
    const NoGrad recorded_below;
    return mean(z, {1, 2}, {.keep_axes = true});
  }();
  const Activation f = norm.options.activation.kind;
  const auto shared = std::make_shared<Tensor>();  // the factors, from excite's backward to here
  const Tensor* const inputs[] = {&x, &norm.gamma, &norm.beta};
  const Tensor* const outputs[] = {&z, &squeezed};
  if (op_attributes) *op_attributes = attributes_of(norm.options);
  record(
      "batch_norm_squeeze", inputs, outputs,
      [shared, norm = SavedNorm(checked),
       z = f == Activation::none || !grad_from_output(f) ? Saved() : save_output(z)](Gradients& g) {
        g.no_double_backward();
        const TrainingNorm known = norm(g);
        const auto positions = static_cast<double>(known.geometry.h * known.geometry.w);
        UnsummedGrads dz{.first = g.dy(0),
                         .second = affine(g.dy(1), 1 / positions, 0),
                         .factor = std::exchange(*shared, {})};
        // Without a factor, the averages were read alone.
        if (!dz.factor.defined()) dz = {.first = add(dz.first, dz.second), .second = {}};
        backend_of(known.x.device())
            .normalization()
            .batch_norm_backward(known.geometry,
                                 {.x = known.x,
                                  .gamma = known.gamma,
                                  .beta = known.beta,
                                  .y = z(g),
                                  .mean = known.mean,
                                  .inv_std = known.inv_std},
                                 dz, wanted_gradients(g, 0));
      });
  const Tensor s = factors(squeezed);
  const Shape expected = x.shape().with(1, 1).with(2, 1);
  if (!(s.shape() == expected)) {
    fail(ErrorKind::usage, "batch_norm_excite: expected factors {}, got {}.", expected, s.shape());
  }
  const Tensor y = [&] {
    const NoGrad recorded_below;
    return mul(z, s);
  }();
  record("excite", {&z, &s}, y, [shared, z = save_if(needs_grad(s), z), s = save(s)](Gradients& g) {
    g.no_double_backward();
    const Tensor factor = s(g).detach();
    if (g.needs(1)) g.accumulate_grad(1, sum_products_to(g.dy(), z(g), factor.shape()));
    *shared = factor;
    g.accumulate_grad(0, g.dy());
  });
  return y;
}

}  // namespace whisker
