// Batch, layer and group normalisation.
#include "core/backend/normalization.h"

#include "core/backend/unsummed_grads.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/batch_norm.h"
#include "core/cuda/norm/group_norm.h"
#include "core/cuda/norm/layer_norm.h"
#include "core/cuda/ops/cuda_kernels.h"

namespace whisker::cuda {

namespace {

class Normalization final : public NormalizationKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  bool adds_unsummed_grads() const override { return true; }
  bool scales_grads(const BatchNormGeometry& g) const override { return g.rows <= INT32_MAX; }

  void batch_norm_train(const BatchNormGeometry& g, const NormInputs& in, const NormOutputs& out,
                        const RunningStatistics& running) override {
    context_.enter();
    kernels::batch_norm_train(context_, allocator_, g,
                              {.x = in.x.raw(),
                               .residual = pointer(in.residual),
                               .y = out.y.raw(),
                               .gamma = channels(in.gamma),
                               .beta = channels(in.beta),
                               .mean = f32(out.mean),
                               .inv_std = f32(out.inv_std)},
                              kernels::Running::of(running));
  }

  void batch_norm_inference(const BatchNormGeometry& g, const NormInputs& in,
                            const KnownStatistics& statistics, const Tensor& y) override {
    context_.enter();
    kernels::batch_norm_inference(context_, g,
                                  {.x = in.x.raw(),
                                   .residual = pointer(in.residual),
                                   .y = y.raw(),
                                   .gamma = channels(in.gamma),
                                   .beta = channels(in.beta),
                                   .mean = f32(statistics.mean),
                                   .variance = f32(statistics.variance)});
  }

  void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                           const UnsummedGrads& dy, const NormGrads& out) override {
    context_.enter();
    kernels::batch_norm_backward(context_, allocator_, g,
                                 {.x = pointer(saved.x),
                                  .y = pointer(saved.y),
                                  .dy = dy.first.raw(),
                                  .factor = pointer(dy.factor),
                                  .more = pointer(dy.second),
                                  .gamma = channels(saved.gamma),
                                  .beta = channels(saved.beta),
                                  .mean = f32(saved.mean),
                                  .inv_std = f32(saved.inv_std),
                                  .dx = pointer(out.dx),
                                  .dgamma = channels(out.dgamma),
                                  .dbeta = channels(out.dbeta),
                                  .dresidual = pointer(out.dresidual)});
  }

  void layer_norm(const LayerNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    context_.enter();
    kernels::layer_norm(context_, g,
                        {.dtype = in.x.dtype(),
                         .x = in.x.raw(),
                         .y = out.y.raw(),
                         .gamma = channels(in.gamma),
                         .beta = channels(in.beta),
                         .mean = f32(out.mean),
                         .inv_std = f32(out.inv_std)});
  }

  void layer_norm_backward(const LayerNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    context_.enter();
    kernels::layer_norm_backward(context_, allocator_, g,
                                 {.dtype = dy.dtype(),
                                  .x = pointer(saved.x),
                                  .dy = dy.raw(),
                                  .gamma = channels(saved.gamma),
                                  .mean = f32(saved.mean),
                                  .inv_std = f32(saved.inv_std),
                                  .dx = pointer(out.dx),
                                  .dgamma = channels(out.dgamma),
                                  .dbeta = channels(out.dbeta)});
  }

  void group_norm(const GroupNormGeometry& g, const NormInputs& in,
                  const NormOutputs& out) override {
    context_.enter();
    kernels::group_norm(context_, allocator_, g,
                        {.dtype = in.x.dtype(),
                         .x = in.x.raw(),
                         .y = out.y.raw(),
                         .gamma = channels(in.gamma),
                         .beta = channels(in.beta),
                         .mean = f32(out.mean),
                         .inv_std = f32(out.inv_std)});
  }

  void group_norm_backward(const GroupNormGeometry& g, const NormSaved& saved, const Tensor& dy,
                           const NormGrads& out) override {
    context_.enter();
    kernels::group_norm_backward(context_, allocator_, g,
                                 {.dtype = dy.dtype(),
                                  .x = pointer(saved.x),
                                  .dy = dy.raw(),
                                  .gamma = channels(saved.gamma),
                                  .mean = f32(saved.mean),
                                  .inv_std = f32(saved.inv_std),
                                  .dx = pointer(out.dx),
                                  .dgamma = channels(out.dgamma),
                                  .dbeta = channels(out.dbeta)});
  }
};

}  // namespace

std::shared_ptr<NormalizationKernels> make_normalization(CudaDevice& device) {
  return std::make_shared<Normalization>(device);
}

}  // namespace whisker::cuda
