// Two batch norms whose results are added, as one operator where the device has kernels over both:
// neither the second's result nor its gradient is stored, and relu's slope is found from both
// tensors again.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/batch_norm_pairs.h"
#include "core/ops/checks.h"
#include "core/ops/norm.h"

namespace whisker {
namespace {

void check_pair(const Tensor& x, const BatchNormOperands& norm, const Tensor& added,
                const BatchNormOperands& added_norm) {
  check_alike("batch_norm_pair", "x", x, "added", added);
  if (!(x.shape() == added.shape())) {
    fail(ErrorKind::usage, "batch_norm_pair: expected two tensors of one shape, got {} and {}.",
         x.shape(), added.shape());
  }
  if (norm.residual.defined() || added_norm.residual.defined() ||
      added_norm.options.activation.kind != Activation::none) {
    fail(ErrorKind::usage,
         "batch_norm_pair: expected norms without residuals, the second without an activation. "
         "What is added is the second norm's result; the first norm's activation follows.");
  }
}

/// Of the checked operands, with memory for its statistics.
PairedNorm paired(const Tensor& x, const BatchNormOperands& norm) {
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
          .inverse_deviation = empty({geometry.channels}, statistics),
          .sums = norm.state.sums,
          .running = running_statistics(norm.state, norm.options, x)};
}

/// A norm as backward wants it.
struct SavedNorm {
  explicit SavedNorm(const PairedNorm& norm)
      : geometry(norm.geometry),
        x(save(norm.x)),
        gamma(save(norm.gamma)),
        beta(save(norm.beta)),
        mean(save(norm.mean)),
        inverse_deviation(save(norm.inverse_deviation)) {}
  PairedNorm operator()(const Gradients& g) const {
    return {.geometry = geometry,
            .x = x(g),
            .gamma = gamma(g),
            .beta = beta(g),
            .mean = mean(g),
            .inverse_deviation = inverse_deviation(g)};
  }

  BatchNormGeometry geometry;
  Saved x, gamma, beta, mean, inverse_deviation;
};

PairedGradients wanted(Gradients& g, size_t first_input) {
  return {.dx = g.target_if_needed(first_input),
          .dgamma = g.target_if_needed(first_input + 1),
          .dbeta = g.target_if_needed(first_input + 2)};
}

}  // namespace

bool joins_batch_norms(const Tensor& x) {
  return backend_of(x.device()).batch_norm_pairs() != nullptr;
}

Tensor batch_norm_pair(const Tensor& x, const BatchNormOperands& norm, const Tensor& added,
                       const BatchNormOperands& added_norm) {
  check_pair(x, norm, added, added_norm);
  const Activation activation = norm.options.activation.kind;
  const bool fits = norm.options.training && added_norm.options.training &&
                    (activation == Activation::none || activation == Activation::relu);
  if (!fits || !joins_batch_norms(x)) {
    const Tensor residual =
        batch_norm(added, added_norm.gamma, added_norm.beta, added_norm.state, added_norm.options);
    return batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, residual);
  }
  BatchNormPairs* const pairs = backend_of(x.device()).batch_norm_pairs();
  const PairedNorm first = paired(x, norm);
  const PairedNorm second = paired(added, added_norm);
  const Tensor y = empty_like(x);
  pairs->normalise(first, second, y);
  note_pending(first.running);
  note_pending(second.running);
  record("batch_norm_pair",
         {&x, &norm.gamma, &norm.beta, &added, &added_norm.gamma, &added_norm.beta}, y,
         [pairs, first = SavedNorm(first), second = SavedNorm(second)](Gradients& g) {
           g.once_only();
           const PairedGradients of_first = wanted(g, 0);
           const PairedGradients of_second = wanted(g, 3);
           const PairedNorm one = first(g);
           const GradientParts dy = backend_of(one.x.device()).adds_gradient_parts()
                                        ? g.dy_parts()
                                        : GradientParts{g.dy(), {}};
           pairs->backward(one, second(g), dy, of_first, of_second);
         });
  return y;
}

}  // namespace whisker
