// Means its parts, so that the joint operator can be held to its definition without a GPU. The
// result, whose sign is relu's slope, is made again.
#include "core/reference/batch_norm_pairs.h"

#include "core/autograd.h"
#include "core/ops.h"

namespace whisker {

void ReferenceBatchNormPairs::normalise(const TrainingNorm& first, const TrainingNorm& second,
                                        const Tensor& y) {
  const Tensor residual = empty_like(second.x);
  BatchNormGeometry added = first.geometry;
  added.residual = true;
  backend_.batch_norm_train(second.geometry, second.x, second.gamma, second.beta, {}, residual,
                            second.mean, second.inverse_deviation, second.running);
  backend_.batch_norm_train(added, first.x, first.gamma, first.beta, residual, y, first.mean,
                            first.inverse_deviation, first.running);
}

void ReferenceBatchNormPairs::backward(const TrainingNorm& first, const TrainingNorm& second,
                                       const GradientParts& dy, const NormGradients& of_first,
                                       const NormGradients& of_second) {
  TrainingNorm one = first, other = second;  // without running statistics
  for (TrainingNorm* norm : {&one, &other}) {
    norm->mean = empty_like(norm->mean);
    norm->inverse_deviation = empty_like(norm->inverse_deviation);
  }
  const bool active = first.geometry.activation.kind != Activation::none;
  const Tensor y = active ? empty_like(first.x) : Tensor();
  if (active) normalise(one, other, y);
  const Tensor residual_gradient = empty_like(second.x);
  BatchNormGeometry added = first.geometry;
  added.residual = true;
  backend_.batch_norm_backward(added, true, first.x, first.gamma, first.beta, y, first.mean,
                               first.inverse_deviation, dy, of_first.dx, of_first.dgamma,
                               of_first.dbeta, residual_gradient);
  backend_.batch_norm_backward(second.geometry, true, second.x, second.gamma, second.beta, {},
                               second.mean, second.inverse_deviation, {residual_gradient, {}},
                               of_second.dx, of_second.dgamma, of_second.dbeta, {});
}

}  // namespace whisker
