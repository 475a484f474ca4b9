// A batch_norm in training whose rows lie on several ranks: the kernels of a frozen one, given the
// statistics of all rows.
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/normalization.h"
#include "core/ops/norm.h"

#include <cmath>

namespace whisker {
namespace {

/// Mean and biased variance of all ranks' rows, (C) each, from those of each rank's (Chan, Golub
/// and LeVeque 1983).
struct Statistics {
  Tensor mean, variance;
};

Statistics of_all_ranks(const Tensor& mean, const Tensor& variance, const NormRanks& ranks) {
  const Shape row{1, mean.count()};
  const Tensor own = empty({3, mean.count()}, mean.options());
  slice(own, 0, 0, 1).fill_(ranks.fraction);
  slice(own, 0, 1, 2).copy_(mean.reshape(row));
  slice(own, 0, 2, 3).copy_(variance.reshape(row));
  const Tensor all = empty({ranks.world, 3, mean.count()}, mean.options());
  ranks.all_gather(own, all);
  const Tensor fractions = slice(all, 1, 0, 1);  // (ranks, 1, C), as means and variances
  const Tensor means = slice(all, 1, 1, 2), variances = slice(all, 1, 2, 3);
  const Tensor whole = sum(mul(fractions, means), {0});  // (1, C)
  const Tensor from_whole = sub(means, whole);
  const Tensor squares = add(variances, mul(from_whole, from_whole));
  return {.mean = whole.reshape(mean.shape()),
          .variance = sum(mul(fractions, squares), {0}).reshape(mean.shape())};
}

void set_pending(const RunningStatistics& running, const Statistics& batch, double rows) {
  if (!running.pending_mean.defined()) return;
  const auto average = [&](const Tensor& before, const Tensor& now, double factor) {
    return add(affine(before, 1 - running.momentum, 0), affine(now, running.momentum * factor, 0));
  };
  running.pending_mean.copy_(average(running.mean, batch.mean, 1));
  running.pending_variance.copy_(average(running.variance, batch.variance, rows / (rows - 1)));
}

/// What the statistics add to dx, which is that of constant ones: with the sums of dy and of dy
/// times normalised x over all rows, -gamma inv_std (sum + normalised sum_normalised) / rows. It is
/// a batch_norm itself.
void add_through_statistics(const TrainingNorm& norm, const Tensor& sums, double rows,
                            const Tensor& constant_dx, const Tensor& dx) {
  const Shape channels{norm.geometry.channels};
  const Tensor factor =
      affine(mul(norm.gamma.to(norm.inv_std.dtype()), norm.inv_std), -1 / rows, 0);
  BatchNormGeometry geometry = norm.geometry;
  geometry.activation = {};
  geometry.residual = true;
  backend_of(dx.device())
      .normalization()
      .batch_norm_inference(geometry,
                            {.x = norm.x,
                             .gamma = mul(factor, slice(sums, 0, 1, 2).reshape(channels)),
                             .beta = mul(factor, slice(sums, 0, 0, 1).reshape(channels)),
                             .residual = constant_dx},
                            {.mean = norm.mean, .variance = norm.variance}, dx);
}

}  // namespace

Tensor synced_batch_norm(const Tensor& x, const BatchNormOperands& operands) {
  const NormRanks& ranks = *operands.options.ranks;
  TrainingNorm norm = training_norm(x, operands);
  norm.geometry.training = false;  // backward through the statistics is added to it
  const double rows = std::round(static_cast<double>(norm.geometry.rows) / ranks.fraction);
  NormalizationKernels& kernels = backend_of(x.device()).normalization();
  const NormInputs in{.x = x, .gamma = norm.gamma, .beta = norm.beta, .residual = norm.residual};
  const Tensor y = empty_like(x);
  {
    const NoGrad constant;
    kernels.batch_norm_train(norm.geometry, in,
                             {.y = y, .mean = norm.mean, .inv_std = norm.inv_std}, {});
    const double epsilon = norm.geometry.epsilon;
    const Statistics batch =
        of_all_ranks(norm.mean, affine(pow(norm.inv_std, -2), 1, -epsilon), ranks);
    set_pending(norm.running, batch, rows);
    note_pending(norm.running);
    norm.mean = batch.mean;
    norm.variance = batch.variance;
    norm.inv_std = pow(affine(batch.variance, 1, epsilon), -0.5);
    kernels.batch_norm_inference(norm.geometry, in, {.mean = norm.mean, .variance = norm.variance},
                                 y);
  }
  if (op_attributes) *op_attributes = attributes_of(operands.options);
  record("batch_norm", {&x, &operands.gamma, &operands.beta, &operands.residual}, y,
         [rows, &ranks, saved = SavedNorm(norm), variance = save(norm.variance),
          y = norm.geometry.activation.kind == Activation::none ? Saved()
                                                                : save_output(y)](Gradients& g) {
           g.no_double_backward();
           TrainingNorm known = saved(g);
           known.variance = variance(g);
           const Device device = known.x.device();
           const UnsummedGrads dy = grads_for(device, g);
           const Tensor dx = g.grad_buffer_if_needed(0);
           NormGrads out{.dx = dx.defined() ? empty_like(dx) : dx,
                         .dgamma = g.grad_buffer_if_needed(1),
                         .dbeta = g.grad_buffer_if_needed(2),
                         .dresidual = g.grad_buffer_if_needed(3)};
           if (!out.dgamma.defined()) out.dgamma = empty_like(known.gamma);
           if (!out.dbeta.defined()) out.dbeta = empty_like(known.beta);
           backend_of(device).normalization().batch_norm_backward(known.geometry,
                                                                  {.x = known.x,
                                                                   .gamma = known.gamma,
                                                                   .beta = known.beta,
                                                                   .y = y(g),
                                                                   .mean = known.mean,
                                                                   .inv_std = known.inv_std},
                                                                  dy, out);
           if (!dx.defined()) return;
           const Shape row{1, known.geometry.channels};
           const Tensor sums = empty({2, known.geometry.channels}, known.mean.options());
           slice(sums, 0, 0, 1).copy_(out.dbeta.to(sums.dtype()).reshape(row));
           slice(sums, 0, 1, 2).copy_(out.dgamma.to(sums.dtype()).reshape(row));
           ranks.all_reduce(sums);
           add_through_statistics(known, sums, rows, out.dx, dx);
         });
  return y;
}

}  // namespace whisker
