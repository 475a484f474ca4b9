// Batch norms fused with an addition or with max-pooling: statistics of each norm, then passes over
// both operands.
#include "core/backend/fused_ops.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/add_norms.h"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/norm/norm_pool.h"
#include "core/cuda/ops/cuda_kernels.h"

namespace whisker::cuda {
namespace {

kernels::AddedNorm columns(const TrainingNorm& norm) {
  return {.x = norm.x.raw(),
          .gamma = channels(norm.gamma),
          .beta = channels(norm.beta),
          .mean = f32(norm.mean),
          .inv_std = f32(norm.inv_std)};
}

kernels::AddedNormGradients columns(const NormGrads& gradients) {
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

class AddNorms final : public FusedAddNorms, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void normalise(const TrainingNorm& first, const TrainingNorm& second, const Tensor& y) override {
    context_.enter();
    kernels::batch_norm_statistics(context_, allocator_, second);
    kernels::batch_norm_statistics(context_, allocator_, first);
    kernels::add_norms(context_, first.geometry, columns(first), columns(second), y.raw());
  }

  void backward(const TrainingNorm& first, const TrainingNorm& second, const UnsummedGrads& dy,
                const AddNormsGradients& gradients) override {
    context_.enter();
    kernels::add_norms_backward(context_, allocator_, first.geometry, columns(first),
                                columns(second),
                                {.dy = dy.first.raw(),
                                 .more = pointer(dy.second),
                                 .first = columns(gradients.first),
                                 .second = columns(gradients.second)});
  }
};

/// Forward, one pass pools and normalises; backward, sums over windows, then one pass that gathers
/// and makes the gradient.
class NormPool final : public FusedNormPool, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void normalise(const TrainingNorm& norm, const PoolArgmax& argmax, const Tensor& y) override {
    context_.enter();
    kernels::batch_norm_statistics(context_, allocator_, norm);
    kernels::norm_pool(
        context_, norm.geometry, argmax.geometry, operands(norm),
        {.y = y.raw(), .x_at_argmax = pointer(argmax.x), .argmax = bytes(argmax.positions)});
  }

  void backward(const TrainingNorm& norm, const PoolArgmax& argmax, const UnsummedGrads& dy,
                const NormGrads& gradients) override {
    context_.enter();
    kernels::norm_pool_backward(context_, allocator_, norm.geometry, argmax.geometry,
                                operands(norm),
                                {.x_at_argmax = argmax.x.raw(),
                                 .argmax = bytes(argmax.positions),
                                 .dy = dy.first.raw(),
                                 .more = pointer(dy.second),
                                 .dx = pointer(gradients.dx),
                                 .dgamma = channels(gradients.dgamma),
                                 .dbeta = channels(gradients.dbeta)});
  }
};

}  // namespace

std::shared_ptr<FusedAddNorms> make_fused_add_norms(CudaDevice& device) {
  return std::make_shared<AddNorms>(device);
}

std::shared_ptr<FusedNormPool> make_fused_norm_pool(CudaDevice& device) {
  return std::make_shared<NormPool>(device);
}

}  // namespace whisker::cuda
