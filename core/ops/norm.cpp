// Batch, layer and group normalisation. Statistics are f32 (f64 for f64 x), whatever x is.
#include "core/ops/norm.h"

#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/fused_ops.h"
#include "core/backend/normalization.h"
#include "core/ops/checks.h"

#include <cmath>

namespace whisker {

DType statistics_dtype(DType x) {
  return x == DType::f64 ? DType::f64 : DType::f32;
}

namespace {

void check_epsilon(const char* op, double epsilon) {
  if (!(epsilon > 0 && std::isfinite(epsilon))) {
    fail(ErrorKind::usage, "{}: expected an epsilon above 0, got {}.", op, epsilon);
  }
}

// gamma and beta, as x is or as the statistics are.
void check_scale_and_shift(const char* op, const Tensor& x, const Tensor& gamma,
                           const Tensor& beta) {
  check_vector(op, "gamma", gamma, x.extent(-1), x, "x");
  check_vector(op, "beta", beta, x.extent(-1), x, "x");
  check_alike(op, "gamma", gamma, "beta", beta);
  if (gamma.dtype() != x.dtype() && gamma.dtype() != statistics_dtype(x.dtype())) {
    fail(ErrorKind::usage, "{}: expected gamma and beta of {} for x of {}, got {}.", op,
         statistics_dtype(x.dtype()), x.dtype(), gamma.dtype());
  }
}

void check_statistic(const char* name, const Tensor& statistic, const Tensor& x) {
  check_vector("batch_norm", name, statistic, x.extent(-1), x, "x");
  if (statistic.dtype() != statistics_dtype(x.dtype())) {
    fail(ErrorKind::usage, "batch_norm: expected {} of {} for x of {}, got {}.", name,
         statistics_dtype(x.dtype()), x.dtype(), statistic.dtype());
  }
}

}  // namespace

BatchNormGeometry batch_norm_geometry(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                      const BatchNormOptions& options, const Tensor& residual) {
  if (x.rank() < 2) {
    fail(ErrorKind::usage, "batch_norm: expected x (N, ..., C), got {}.", x.shape());
  }
  check_computes("batch_norm", "x", x);
  check_activation("batch_norm", options.activation);
  check_not_empty("batch_norm", "x", x);
  check_epsilon("batch_norm", options.epsilon);
  check_scale_and_shift("batch_norm", x, gamma, beta);
  if (residual.defined()) {
    check_alike("batch_norm", "x", x, "residual", residual);
    if (!(residual.shape() == x.shape())) {
      fail(ErrorKind::usage, "batch_norm: expected a residual of x's shape {}, got {}.", x.shape(),
           residual.shape());
    }
  }
  const bool image = x.rank() == 4;
  const int64_t rows = x.count() / x.extent(-1);
  return {.rows = rows,
          .channels = x.extent(-1),
          .n = image ? x.extent(0) : rows,
          .h = image ? x.extent(1) : 1,
          .w = image ? x.extent(2) : 1,
          .epsilon = options.epsilon,
          .activation = options.activation,
          .residual = residual.defined(),
          .dtype = x.dtype()};
}

RunningStatistics running_statistics(const BatchNormState& state, const BatchNormOptions& options,
                                     const Tensor& x) {
  if (!state.pending_mean.defined() && !state.pending_var.defined()) return {};
  check_statistic("running_mean", state.running_mean, x);
  check_statistic("running_var", state.running_var, x);
  check_statistic("pending_mean", state.pending_mean, x);
  check_statistic("pending_var", state.pending_var, x);
  return {.mean = state.running_mean,
          .variance = state.running_var,
          .pending_mean = state.pending_mean,
          .pending_variance = state.pending_var,
          .momentum = options.momentum};
}

void check_sums(const Tensor& sums, const Tensor& x) {
  if (!sums.defined() || (sums.shape() == Shape{2, x.extent(-1)} && sums.dtype() == DType::f32 &&
                          sums.device() == x.device())) {
    return;
  }
  fail(ErrorKind::usage, "batch_norm: expected sums (2,{}) of f32 beside x {}, got {} of {}.",
       x.extent(-1), x.shape(), sums.shape(), sums.dtype());
}

void check_training(const BatchNormGeometry& geometry, const BatchNormOptions& options,
                    const Tensor& x) {
  if (geometry.rows < 2) {
    fail(ErrorKind::usage,
         "batch_norm: training needs at least 2 values per channel, got x {}. Use a larger batch.",
         x.shape());
  }
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    fail(ErrorKind::usage, "batch_norm: expected a momentum in [0, 1], got {}.", options.momentum);
  }
}

void note_pending(const RunningStatistics& running) {
  for (const Tensor& pending : {running.pending_mean, running.pending_variance}) {
    if (pending.defined()) pending.storage()->bump_version();
  }
}

NormalisedBatch normalise_batch(const BatchNormGeometry& geometry, const Tensor& x,
                                const BatchNormOperands& norm) {
  check_training(geometry, norm.options, x);
  const TensorOptions statistics{.dtype = statistics_dtype(x.dtype()), .device = x.device()};
  NormalisedBatch batch{.y = empty_like(x),
                        .mean = empty({geometry.channels}, statistics),
                        .inv_std = empty({geometry.channels}, statistics)};
  const RunningStatistics running = running_statistics(norm.state, norm.options, x);
  const Tensor& sums = norm.state.sums;
  check_sums(sums, x);
  Backend& backend = backend_of(x.device());
  const NormInputs in{.x = x, .gamma = norm.gamma, .beta = norm.beta, .residual = norm.residual};
  FusedConvNorm* const fused = backend.fused_conv_norm();
  if (fused && sums.defined()) {
    const Tensor variance = empty({geometry.channels}, statistics);
    fused->statistics(
        {.geometry = geometry,
         .x = x,
         .gamma = norm.gamma,
         .beta = norm.beta,
         .sums = sums,
         .statistics = {.mean = batch.mean, .variance = variance, .inv_std = batch.inv_std}},
        running);
    backend.normalization().batch_norm_inference(
        geometry, in, {.mean = batch.mean, .variance = variance}, batch.y);
  } else {
    backend.normalization().batch_norm_train(
        geometry, in, {.y = batch.y, .mean = batch.mean, .inv_std = batch.inv_std}, running);
  }
  note_pending(running);
  return batch;
}

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const BatchNormState& state, const BatchNormOptions& options,
                  const Tensor& residual) {
  if (options.activation.kind != Activation::none && options.activation.kind != Activation::relu) {
    BatchNormOptions plain = options;
    plain.activation = {};
    return activation(batch_norm(x, gamma, beta, state, plain, residual), options.activation);
  }
  const BatchNormGeometry geometry = batch_norm_geometry(x, gamma, beta, options, residual);
  Tensor y, mean, inv_std;
  if (options.training) {
    NormalisedBatch batch = normalise_batch(geometry, x, {gamma, beta, state, options, residual});
    y = std::move(batch.y);
    mean = std::move(batch.mean);
    inv_std = std::move(batch.inv_std);
  } else {
    check_statistic("running_mean", state.running_mean, x);
    check_statistic("running_var", state.running_var, x);
    y = empty_like(x);
    mean = state.running_mean;
    backend_of(x.device())
        .normalization()
        .batch_norm_inference(geometry,
                              {.x = x, .gamma = gamma, .beta = beta, .residual = residual},
                              {.mean = mean, .variance = state.running_var}, y);
    if (needs_grad(x) || needs_grad(gamma)) {
      const NoGrad constant;
      inv_std = pow(affine(state.running_var, 1, options.epsilon), -0.5);
    }
  }
  record(
      "batch_norm", {&x, &gamma, &beta, &residual}, y,
      [geometry, training = options.training, x = save_if(needs_grad(x) || needs_grad(gamma), x),
       gamma = save_if(needs_grad(x), gamma), beta = save_if(needs_grad(x), beta),
       mean = save(mean), inv_std = save(inv_std),
       y = options.activation.kind == Activation::none ? Saved() : save_output(y)](Gradients& g) {
        g.no_double_backward();
        const Tensor dx = g.grad_buffer_if_needed(0);
        const Tensor dgamma = g.grad_buffer_if_needed(1);
        const Tensor dbeta = g.grad_buffer_if_needed(2);
        const Tensor dresidual = g.grad_buffer_if_needed(3);
        NormalizationKernels& kernels = backend_of(mean(g).device()).normalization();
        const UnsummedGrads dy =
            kernels.adds_unsummed_grads() ? g.unsummed_grads() : UnsummedGrads{g.dy(), {}};
        kernels.batch_norm_backward(
            geometry,
            {.x = x(g),
             .gamma = gamma(g),
             .beta = beta(g),
             .y = y(g),
             .mean = mean(g),
             .inv_std = inv_std(g),
             .batch_statistics = training},
            dy, {.dx = dx, .dgamma = dgamma, .dbeta = dbeta, .dresidual = dresidual});
      });
  return y;
}

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon) {
  if (x.rank() < 1) fail(ErrorKind::usage, "layer_norm: expected x (..., features), got a scalar.");
  check_computes("layer_norm", "x", x);
  check_not_empty("layer_norm", "x", x);
  check_epsilon("layer_norm", epsilon);
  check_scale_and_shift("layer_norm", x, gamma, beta);
  const LayerNormGeometry geometry{
      .rows = x.count() / x.extent(-1), .features = x.extent(-1), .epsilon = epsilon};
  const TensorOptions statistics{.dtype = statistics_dtype(x.dtype()), .device = x.device()};
  const Tensor y = empty_like(x);
  const Tensor mean = empty({geometry.rows}, statistics);
  const Tensor inv_std = empty({geometry.rows}, statistics);
  backend_of(x.device())
      .normalization()
      .layer_norm(geometry, {.x = x, .gamma = gamma, .beta = beta},
                  {.y = y, .mean = mean, .inv_std = inv_std});
  record("layer_norm", {&x, &gamma, &beta}, y,
         [geometry, x = save_if(needs_grad(x) || needs_grad(gamma), x),
          gamma = save_if(needs_grad(x), gamma), mean = save(mean),
          inv_std = save(inv_std)](Gradients& g) {
           g.no_double_backward();
           const Tensor dx = g.grad_buffer_if_needed(0);
           const Tensor dgamma = g.grad_buffer_if_needed(1);
           const Tensor dbeta = g.grad_buffer_if_needed(2);
           backend_of(g.dy().device())
               .normalization()
               .layer_norm_backward(
                   geometry, {.x = x(g), .gamma = gamma(g), .mean = mean(g), .inv_std = inv_std(g)},
                   g.dy(), {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
         });
  return y;
}

Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormOptions& options) {
  if (x.rank() < 2) {
    fail(ErrorKind::usage, "group_norm: expected x (N, ..., C), got {}.", x.shape());
  }
  check_computes("group_norm", "x", x);
  check_not_empty("group_norm", "x", x);
  check_epsilon("group_norm", options.epsilon);
  check_scale_and_shift("group_norm", x, gamma, beta);
  const int64_t channels = x.extent(-1);
  if (options.groups < 1 || channels % options.groups != 0) {
    fail(ErrorKind::usage,
         "group_norm: expected groups that divide the {} channels of x {}, got {}.", channels,
         x.shape(), options.groups);
  }
  const GroupNormGeometry geometry{.n = x.extent(0),
                                   .positions = x.count() / (x.extent(0) * channels),
                                   .channels = channels,
                                   .groups = options.groups,
                                   .epsilon = options.epsilon};
  const TensorOptions statistics{.dtype = statistics_dtype(x.dtype()), .device = x.device()};
  const Tensor y = empty_like(x);
  const Tensor mean = empty({geometry.n, geometry.groups}, statistics);
  const Tensor inv_std = empty({geometry.n, geometry.groups}, statistics);
  backend_of(x.device())
      .normalization()
      .group_norm(geometry, {.x = x, .gamma = gamma, .beta = beta},
                  {.y = y, .mean = mean, .inv_std = inv_std});
  record("group_norm", {&x, &gamma, &beta}, y,
         [geometry, x = save_if(needs_grad(x) || needs_grad(gamma), x),
          gamma = save_if(needs_grad(x), gamma), mean = save(mean),
          inv_std = save(inv_std)](Gradients& g) {
           g.no_double_backward();
           const Tensor dx = g.grad_buffer_if_needed(0);
           const Tensor dgamma = g.grad_buffer_if_needed(1);
           const Tensor dbeta = g.grad_buffer_if_needed(2);
           backend_of(g.dy().device())
               .normalization()
               .group_norm_backward(
                   geometry, {.x = x(g), .gamma = gamma(g), .mean = mean(g), .inv_std = inv_std(g)},
                   g.dy(), {.dx = dx, .dgamma = dgamma, .dbeta = dbeta});
         });
  return y;
}

}  // namespace whisker
