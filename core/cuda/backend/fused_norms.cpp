// Tensors to pointers.
#include "core/cuda/backend/fused_norms.h"

#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/add_norms.h"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/norm/norm_pool.h"

namespace whisker::cuda {
namespace {

/// mean, inv_std and what becomes of the running ones: from norm.sums where the convolution before
/// has left them, else from norm.x.
void find_statistics(Context& context, Allocator& allocator, const TrainingNorm& norm) {
  const kernels::Running running = kernels::Running::of(norm.running);
  if (norm.sums.defined()) {
    kernels::statistics_of_sums(
        context, norm.geometry,
        {.sums = f32(norm.sums), .mean = f32(norm.mean), .inv_std = f32(norm.inv_std)}, running);
  } else {
    kernels::batch_norm_statistics(
        context, allocator, norm.geometry,
        {.x = norm.x.raw(), .mean = f32(norm.mean), .inv_std = f32(norm.inv_std)}, running);
  }
}

kernels::AddedNorm columns(const TrainingNorm& norm) {
  return {.x = norm.x.raw(),
          .gamma = channels(norm.gamma),
          .beta = channels(norm.beta),
          .mean = f32(norm.mean),
          .inv_std = f32(norm.inv_std)};
}

kernels::AddedNormGradients columns(const NormGradients& gradients) {
  return {.dx = pointer(gradients.dx),
          .dgamma = channels(gradients.dgamma),
          .dbeta = channels(gradients.dbeta)};
}

kernels::NormPool operands(const TrainingNorm& norm) {
  return {.x = pointer(norm.x),
          .gamma = channels(norm.gamma),
          .beta = channels(norm.beta),
          .mean = f32(norm.mean),
          .inv_std = f32(norm.inv_std)};
}

uint8_t* bytes(const Tensor& argmax) {
  return static_cast<uint8_t*>(pointer(argmax));
}

}  // namespace

void CudaFusedAddNorms::normalise(const TrainingNorm& first, const TrainingNorm& second,
                                  const Tensor& y) {
  context_.enter();
  find_statistics(context_, allocator_, second);
  find_statistics(context_, allocator_, first);
  kernels::add_norms(context_, first.geometry, columns(first), columns(second), y.raw());
}

void CudaFusedAddNorms::backward(const TrainingNorm& first, const TrainingNorm& second,
                                 const UnsummedGrads& dy, const AddNormsGradients& gradients) {
  context_.enter();
  kernels::add_norms_backward(context_, allocator_, first.geometry, columns(first), columns(second),
                              {.dy = dy.first.raw(),
                               .more = pointer(dy.second),
                               .first = columns(gradients.first),
                               .second = columns(gradients.second)});
}

void CudaFusedNormPool::normalise(const TrainingNorm& norm, const PoolArgmax& argmax,
                                  const Tensor& y) {
  context_.enter();
  find_statistics(context_, allocator_, norm);
  kernels::norm_pool(
      context_, norm.geometry, argmax.geometry, operands(norm),
      {.y = y.raw(), .x_at_argmax = pointer(argmax.x), .argmax = bytes(argmax.positions)});
}

void CudaFusedNormPool::backward(const TrainingNorm& norm, const PoolArgmax& argmax,
                                 const UnsummedGrads& dy, const NormGradients& gradients) {
  context_.enter();
  kernels::norm_pool_backward(context_, allocator_, norm.geometry, argmax.geometry, operands(norm),
                              {.x_at_argmax = argmax.x.raw(),
                               .argmax = bytes(argmax.positions),
                               .dy = dy.first.raw(),
                               .more = pointer(dy.second),
                               .dx = pointer(gradients.dx),
                               .dgamma = channels(gradients.dgamma),
                               .dbeta = channels(gradients.dbeta)});
}

}  // namespace whisker::cuda
