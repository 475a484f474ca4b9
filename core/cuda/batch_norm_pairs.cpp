// Tensors to pointers, and statistics from sums where the convolution before has left them.
#include "core/cuda/batch_norm_pairs.h"

#include "core/autograd.h"
#include "core/cuda/batch_norm.h"
#include "core/cuda/batch_norm_pair.h"
#include "core/cuda/chain_norm.h"
#include "core/cuda/operand.h"

namespace whisker::cuda {
namespace {

kernels::PairedColumns columns(const PairedNorm& norm) {
  return {.x = norm.x.raw(),
          .gamma = channels(norm.gamma),
          .beta = channels(norm.beta),
          .mean = f32(norm.mean),
          .inverse_deviation = f32(norm.inverse_deviation)};
}

kernels::PairedColumnGradients columns(const PairedGradients& gradients) {
  return {.dx = pointer(gradients.dx),
          .dgamma = channels(gradients.dgamma),
          .dbeta = channels(gradients.dbeta)};
}

}  // namespace

void CudaBatchNormPairs::find_statistics(const PairedNorm& norm) {
  const kernels::Running running = kernels::Running::of(norm.running);
  if (norm.sums.defined()) {
    kernels::statistics_of_sums(context_, norm.geometry,
                                {.sums = f32(norm.sums),
                                 .mean = f32(norm.mean),
                                 .inverse_deviation = f32(norm.inverse_deviation)},
                                running);
  } else {
    kernels::batch_norm_statistics(context_, allocator_, norm.geometry,
                                   {.x = norm.x.raw(),
                                    .mean = f32(norm.mean),
                                    .inverse_deviation = f32(norm.inverse_deviation)},
                                   running);
  }
}

void CudaBatchNormPairs::normalise(const PairedNorm& first, const PairedNorm& second,
                                   const Tensor& y) {
  context_.enter();
  find_statistics(second);
  find_statistics(first);
  kernels::normalise_pair(context_, first.geometry, columns(first), columns(second), y.raw());
}

void CudaBatchNormPairs::backward(const PairedNorm& first, const PairedNorm& second,
                                  const GradientParts& dy, const PairedGradients& of_first,
                                  const PairedGradients& of_second) {
  context_.enter();
  kernels::batch_norm_pair_backward(context_, allocator_, first.geometry, columns(first),
                                    columns(second),
                                    {.dy = dy.first.raw(),
                                     .more = pointer(dy.second),
                                     .first = columns(of_first),
                                     .second = columns(of_second)});
}

}  // namespace whisker::cuda
