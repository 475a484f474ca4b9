// Two batch norms whose results are added, as one operator where the device has kernels over both:
// neither the second's result nor its gradient is stored, and relu's slope is found from both
// tensors again.
#include "core/autograd/op_attributes.h"
#include "core/ops/checks.h"
#include "core/ops/norm.h"

namespace whisker {
namespace {

void check_operands(const Tensor& x, const BatchNormOperands& norm, const Tensor& added,
                    const BatchNormOperands& added_norm) {
  check_alike("add_batch_norms", "x", x, "added", added);
  if (!(x.shape() == added.shape())) {
    fail(ErrorKind::usage, "add_batch_norms: expected two tensors of one shape, got {} and {}.",
         x.shape(), added.shape());
  }
  if (norm.residual.defined() || added_norm.residual.defined() ||
      added_norm.options.activation.kind != Activation::none) {
    fail(ErrorKind::usage,
         "add_batch_norms: expected norms without residuals, the second without an activation. "
         "What is added is the second norm's result; the first norm's activation follows.");
  }
}

}  // namespace

Tensor add_batch_norms(const Tensor& x, const BatchNormOperands& norm, const Tensor& added,
                       const BatchNormOperands& added_norm) {
  check_operands(x, norm, added, added_norm);
  const Activation activation = norm.options.activation.kind;
  const bool fits = norm.options.fusible() && added_norm.options.fusible() &&
                    (activation == Activation::none || activation == Activation::relu);
  FusedAddNorms* const fused = backend_of(x.device()).fused_add_norms();
  if (!fused || !fits) {
    const Tensor residual =
        batch_norm(added, added_norm.gamma, added_norm.beta, added_norm.state, added_norm.options);
    return batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, residual);
  }
  const TrainingNorm first = training_norm(x, norm);
  const TrainingNorm second = training_norm(added, added_norm);
  const Tensor y = empty_like(x);
  fused->normalise(first, second, y);
  note_pending(first.running);
  note_pending(second.running);
  describe_op("epsilon {}, added_epsilon {}{}", norm.options.epsilon, added_norm.options.epsilon,
              activation == Activation::none ? "" : ", relu");
  record("add_batch_norms",
         {&x, &norm.gamma, &norm.beta, &added, &added_norm.gamma, &added_norm.beta}, y,
         [fused, first = SavedNorm(first), second = SavedNorm(second)](Gradients& g) {
           g.no_double_backward();
           const AddNormsGradients gradients{wanted_gradients(g, 0), wanted_gradients(g, 3)};
           const TrainingNorm one = first(g);
           fused->backward(one, second(g), grads_for(one.x.device(), g), gradients);
         });
  return y;
}

}  // namespace whisker
