// Tensors to pointers.
#include "core/cuda/pooled_batch_norms.h"

#include "core/autograd.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/pooled_batch_norm.h"
#include "core/cuda/training_norm.h"

namespace whisker::cuda {
namespace {

kernels::PooledNorm operands(const TrainingNorm& norm) {
  return {.x = pointer(norm.x),
          .gamma = channels(norm.gamma),
          .beta = channels(norm.beta),
          .mean = f32(norm.mean),
          .inverse_deviation = f32(norm.inverse_deviation)};
}

uint8_t* bytes(const Tensor& places) {
  return static_cast<uint8_t*>(pointer(places));
}

}  // namespace

void CudaPooledBatchNorms::normalise(const TrainingNorm& norm, const Pool2dGeometry& pool,
                                     const PoolWinners& winners, const Tensor& y) {
  context_.enter();
  find_statistics(context_, allocator_, norm);
  kernels::normalise_pooled(
      context_, norm.geometry, pool, operands(norm),
      {.y = y.raw(), .won = pointer(winners.x), .places = bytes(winners.places)});
}

void CudaPooledBatchNorms::backward(const TrainingNorm& norm, const Pool2dGeometry& pool,
                                    const PoolWinners& winners, const GradientParts& dy,
                                    const NormGradients& gradients) {
  context_.enter();
  kernels::pooled_batch_norm_backward(context_, allocator_, norm.geometry, pool, operands(norm),
                                      {.won = winners.x.raw(),
                                       .places = bytes(winners.places),
                                       .dy = dy.first.raw(),
                                       .more = pointer(dy.second),
                                       .dx = pointer(gradients.dx),
                                       .dgamma = channels(gradients.dgamma),
                                       .dbeta = channels(gradients.dbeta)});
}

}  // namespace whisker::cuda
