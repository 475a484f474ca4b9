// Tensors to pointers.
#include "core/cuda/batch_norm_pairs.h"

#include "core/autograd.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/batch_norm_pair.h"
#include "core/cuda/training_norm.h"

namespace whisker::cuda {
namespace {

kernels::PairedColumns columns(const TrainingNorm& norm) {
  return {.x = norm.x.raw(),
          .gamma = channels(norm.gamma),
          .beta = channels(norm.beta),
          .mean = f32(norm.mean),
          .inverse_deviation = f32(norm.inverse_deviation)};
}

kernels::PairedColumnGradients columns(const NormGradients& gradients) {
  return {.dx = pointer(gradients.dx),
          .dgamma = channels(gradients.dgamma),
          .dbeta = channels(gradients.dbeta)};
}

}  // namespace

void CudaBatchNormPairs::normalise(const TrainingNorm& first, const TrainingNorm& second,
                                   const Tensor& y) {
  context_.enter();
  find_statistics(context_, allocator_, second);
  find_statistics(context_, allocator_, first);
  kernels::normalise_pair(context_, first.geometry, columns(first), columns(second), y.raw());
}

void CudaBatchNormPairs::backward(const TrainingNorm& first, const TrainingNorm& second,
                                  const GradientParts& dy, const NormGradients& of_first,
                                  const NormGradients& of_second) {
  context_.enter();
  kernels::batch_norm_pair_backward(context_, allocator_, first.geometry, columns(first),
                                    columns(second),
                                    {.dy = dy.first.raw(),
                                     .more = pointer(dy.second),
                                     .first = columns(of_first),
                                     .second = columns(of_second)});
}

}  // namespace whisker::cuda
