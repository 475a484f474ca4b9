// Batch, layer and group normalisation. Statistics are f32 (f64 for f64 x), whatever x is.
#include "core/ops/norm.h"

#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/fused_ops.h"
#include "core/backend/normalization.h"
#include "core/ops/checks.h"

#include <cmath>

namespace whisker {

namespace {

// f32, f64 for x of f64.
DType statistics_dtype(DType x) {
  return x == DType::f64 ? DType::f64 : DType::f32;
}

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

BatchNormGeometry batch_norm_geometry(const Tensor& x, const BatchNormOperands& norm) {
  const auto& [gamma, beta, state, options, residual] = norm;
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
          .training = options.training,
          .dtype = x.dtype()};
}

// Undefined tensors where `state` has nothing pending.
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
  if (!sums.defined()) return;
  const Shape expected{3, x.extent(-1)};
  if (sums.shape() == expected && sums.dtype() == DType::f32 && sums.device() == x.device()) return;
  fail(ErrorKind::usage, "batch_norm: expected sums {} of f32 beside x {}, got {} of {}.", expected,
       x.shape(), sums.shape(), sums.dtype());
}

}  // namespace

std::string attributes_of(const BatchNormOptions& options) {
  const Activation f = options.activation.kind;
  return fmt::format("epsilon {}{}{}", options.epsilon, options.training ? ", training" : "",
                     f == Activation::none ? "" : fmt::format(", {}", name_of(f)));
}

void note_pending(const RunningStatistics& running) {
  for (const Tensor& pending : {running.pending_mean, running.pending_variance}) {
    if (pending.defined()) pending.storage()->bump_version();
  }
}

TrainingNorm checked_norm(const Tensor& x, const BatchNormOperands& norm) {
  return {.geometry = batch_norm_geometry(x, norm),
          .x = x,
          .gamma = norm.gamma,
          .beta = norm.beta,
          .residual = norm.residual,
          .sums = norm.state.sums};
}

void prepare_training(TrainingNorm& norm, const BatchNormOperands& operands) {
  const Tensor& x = norm.x;
  const double fraction = operands.options.ranks ? operands.options.ranks->fraction : 1;
  if (static_cast<double>(norm.geometry.rows) / fraction < 1.5) {
    fail(ErrorKind::usage,
         "batch_norm: training needs at least 2 values per channel, got x {}. Use a larger batch.",
         x.shape());
  }
  const double momentum = operands.options.momentum;
  if (!(momentum >= 0 && momentum <= 1)) {
    fail(ErrorKind::usage, "batch_norm: expected a momentum in [0, 1], got {}.", momentum);
  }
  check_sums(norm.sums, x);
  const TensorOptions statistics{.dtype = statistics_dtype(x.dtype()), .device = x.device()};
  norm.mean = empty({norm.geometry.channels}, statistics);
  norm.inv_std = empty({norm.geometry.channels}, statistics);
  norm.running = running_statistics(operands.state, operands.options, x);
}

TrainingNorm training_norm(const Tensor& x, const BatchNormOperands& norm) {
  TrainingNorm checked = checked_norm(x, norm);
  prepare_training(checked, norm);
  return checked;
}

SavedNorm::SavedNorm(const TrainingNorm& norm, bool with_x)
    : geometry_(norm.geometry),
      x_(save_if(with_x, norm.x)),
      gamma_(save(norm.gamma)),
      beta_(save(norm.beta)),
      residual_(save(norm.residual)),
      mean_(save(norm.mean)),
      inv_std_(save(norm.inv_std)) {}

TrainingNorm SavedNorm::operator()(const Gradients& g) const {
  return {.geometry = geometry_,
          .x = x_(g),
          .gamma = gamma_(g),
          .beta = beta_(g),
          .residual = residual_(g),
          .mean = mean_(g),
          .inv_std = inv_std_(g)};
}

NormGrads wanted_gradients(Gradients& g, size_t first) {
  return {.dx = g.grad_buffer_if_needed(first),
          .dgamma = g.grad_buffer_if_needed(first + 1),
          .dbeta = g.grad_buffer_if_needed(first + 2)};
}

UnsummedGrads grads_for(Device device, Gradients& g) {
  return backend_of(device).normalization().adds_unsummed_grads() ? g.unsummed_grads()
                                                                  : UnsummedGrads{g.dy(), {}};
}

Tensor normalise_batch(const TrainingNorm& norm) {
  const Tensor y = empty_like(norm.x);
  Backend& backend = backend_of(norm.x.device());
  const NormInputs in{
      .x = norm.x, .gamma = norm.gamma, .beta = norm.beta, .residual = norm.residual};
  FusedConvNorm* const fused = backend.fused_conv_norm();
  if (fused && norm.sums.defined()) {
    TrainingNorm of_sums = norm;
    of_sums.variance = empty_like(norm.mean);
    fused->statistics(of_sums);
    backend.normalization().batch_norm_inference(
        norm.geometry, in, {.mean = norm.mean, .variance = of_sums.variance}, y);
  } else {
    backend.normalization().batch_norm_train(
        norm.geometry, in, {.y = y, .mean = norm.mean, .inv_std = norm.inv_std}, norm.running);
  }
  note_pending(norm.running);
  return y;
}

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const BatchNormState& state, const BatchNormOptions& options,
                  const Tensor& residual) {
  const ActivationSpec f = options.activation;
  const bool synced = options.training && options.ranks;
  if (!batch_norm_computes(f, !synced && !residual.defined())) {
    BatchNormOptions plain = options;
    plain.activation = {};
    return activation(batch_norm(x, gamma, beta, state, plain, residual), f);
  }
  const BatchNormOperands operands{gamma, beta, state, options, residual};
  if (synced) return synced_batch_norm(x, operands);
  TrainingNorm norm = checked_norm(x, operands);
  const BatchNormGeometry& geometry = norm.geometry;
  const bool of_x = !grad_from_output(f.kind);  // the slope
  Tensor y;
  if (options.training) {
    prepare_training(norm, operands);
    y = normalise_batch(norm);
  } else {
    check_statistic("running_mean", state.running_mean, x);
    check_statistic("running_var", state.running_var, x);
    y = empty_like(x);
    norm.mean = state.running_mean;
    backend_of(x.device())
        .normalization()
        .batch_norm_inference(geometry,
                              {.x = x, .gamma = gamma, .beta = beta, .residual = residual},
                              {.mean = norm.mean, .variance = state.running_var}, y);
    if (needs_grad(x) || needs_grad(gamma) || (of_x && needs_grad(beta))) {
      const NoGrad constant;
      norm.inv_std = pow(affine(state.running_var, 1, options.epsilon), -0.5);
    }
  }
  if (op_attributes) *op_attributes = attributes_of(options);
  record(
      "batch_norm", {&x, &gamma, &beta, &residual}, y,
      [geometry, x = save_if(of_x || needs_grad(x) || needs_grad(gamma), x),
       gamma = save_if(of_x || needs_grad(x), gamma), beta = save_if(of_x || needs_grad(x), beta),
       mean = save(norm.mean), inv_std = save(norm.inv_std),
       y = f.kind == Activation::none || of_x ? Saved() : save_output(y)](Gradients& g) {
        g.no_double_backward();
        const Device device = mean(g).device();
        // Before dx takes memory: where this adds, it frees some.
        const UnsummedGrads dy = grads_for(device, g);
        NormGrads wanted = wanted_gradients(g, 0);
        wanted.dresidual = g.grad_buffer_if_needed(3);
        backend_of(device).normalization().batch_norm_backward(geometry,
                                                               {.x = x(g),
                                                                .gamma = gamma(g),
                                                                .beta = beta(g),
                                                                .y = y(g),
                                                                .mean = mean(g),
                                                                .inv_std = inv_std(g)},
                                                               dy, wanted);
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
  describe_op("epsilon {}", epsilon);
  record("layer_norm", {&x, &gamma, &beta}, y,
         [geometry, x = save_if(needs_grad(x) || needs_grad(gamma), x),
          gamma = save_if(needs_grad(x), gamma), mean = save(mean),
          inv_std = save(inv_std)](Gradients& g) {
           g.no_double_backward();
           const NormGrads wanted = wanted_gradients(g, 0);
           backend_of(g.dy().device())
               .normalization()
               .layer_norm_backward(
                   geometry, {.x = x(g), .gamma = gamma(g), .mean = mean(g), .inv_std = inv_std(g)},
                   g.dy(), wanted);
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
  describe_op("groups {}, epsilon {}", options.groups, options.epsilon);
  record("group_norm", {&x, &gamma, &beta}, y,
         [geometry, x = save_if(needs_grad(x) || needs_grad(gamma), x),
          gamma = save_if(needs_grad(x), gamma), mean = save(mean),
          inv_std = save(inv_std)](Gradients& g) {
           g.no_double_backward();
           const NormGrads wanted = wanted_gradients(g, 0);
           backend_of(g.dy().device())
               .normalization()
               .group_norm_backward(
                   geometry, {.x = x(g), .gamma = gamma(g), .mean = mean(g), .inv_std = inv_std(g)},
                   g.dy(), wanted);
         });
  return y;
}

}  // namespace whisker
