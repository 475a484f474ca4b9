// The checks are batch_norm's.
#include "core/ops/fused/training_norm.h"

#include "core/backend/normalization.h"
#include "core/ops/norm.h"

namespace whisker {

TrainingNorm training_norm(const Tensor& x, const BatchNormOperands& norm) {
  const BatchNormGeometry geometry =
      batch_norm_geometry(x, norm.gamma, norm.beta, norm.options, {});
  check_training(geometry, norm.options, x);
  check_sums(norm.state.sums, x);
  const TensorOptions statistics{.dtype = statistics_dtype(x.dtype()), .device = x.device()};
  return {.geometry = geometry,
          .x = x,
          .gamma = norm.gamma,
          .beta = norm.beta,
          .mean = empty({geometry.channels}, statistics),
          .inv_std = empty({geometry.channels}, statistics),
          .sums = norm.state.sums,
          .running = running_statistics(norm.state, norm.options, x)};
}

SavedNorm::SavedNorm(const TrainingNorm& norm, bool with_x)
    : geometry_(norm.geometry),
      x_(save_if(with_x, norm.x)),
      gamma_(save(norm.gamma)),
      beta_(save(norm.beta)),
      mean_(save(norm.mean)),
      inv_std_(save(norm.inv_std)) {}

TrainingNorm SavedNorm::operator()(const Gradients& g) const {
  return {.geometry = geometry_,
          .x = x_(g),
          .gamma = gamma_(g),
          .beta = beta_(g),
          .mean = mean_(g),
          .inv_std = inv_std_(g)};
}

NormGradients wanted_gradients(Gradients& g, size_t first) {
  return {.dx = g.grad_buffer_if_needed(first),
          .dgamma = g.grad_buffer_if_needed(first + 1),
          .dbeta = g.grad_buffer_if_needed(first + 2)};
}

UnsummedGrads grads_for(Device device, Gradients& g) {
  return backend_of(device).normalization().adds_unsummed_grads() ? g.unsummed_grads()
                                                                  : UnsummedGrads{g.dy(), {}};
}

}  // namespace whisker
