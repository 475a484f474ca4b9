// The backend's batch normalisation.
#include "core/cuda/norm/batch_norm.h"

#include "core/autograd/autograd.h"
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda {

kernels::Running kernels::Running::of(const RunningStatistics& running) {
  return {.mean = f32(running.mean),
          .variance = f32(running.variance),
          .pending_mean = f32(running.pending_mean),
          .pending_variance = f32(running.pending_variance),
          .kept = static_cast<float>(1 - running.momentum),
          .added = static_cast<float>(running.momentum)};
}

void CudaBackend::batch_norm_train(const BatchNormGeometry& g, const Tensor& x, const Tensor& gamma,
                                   const Tensor& beta, const Tensor& residual, const Tensor& y,
                                   const Tensor& mean, const Tensor& inv_std,
                                   const RunningStatistics& running) {
  context_.enter();
  kernels::batch_norm_train(context_, allocator_, g,
                            {.x = x.raw(),
                             .residual = pointer(residual),
                             .y = y.raw(),
                             .gamma = channels(gamma),
                             .beta = channels(beta),
                             .mean = f32(mean),
                             .inv_std = f32(inv_std)},
                            kernels::Running::of(running));
}

void CudaBackend::batch_norm_inference(const BatchNormGeometry& g, const Tensor& x,
                                       const Tensor& gamma, const Tensor& beta,
                                       const Tensor& residual, const Tensor& mean,
                                       const Tensor& variance, const Tensor& y) {
  context_.enter();
  kernels::batch_norm_inference(context_, g,
                                {.x = x.raw(),
                                 .residual = pointer(residual),
                                 .y = y.raw(),
                                 .gamma = channels(gamma),
                                 .beta = channels(beta),
                                 .mean = f32(mean),
                                 .variance = f32(variance)});
}

void CudaBackend::batch_norm_backward(const BatchNormGeometry& g, bool batch_statistics,
                                      const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                      const Tensor& y, const Tensor& mean, const Tensor& inv_std,
                                      const UnsummedGrads& dy, const Tensor& dx,
                                      const Tensor& dgamma, const Tensor& dbeta,
                                      const Tensor& dresidual) {
  context_.enter();
  kernels::batch_norm_backward(context_, allocator_, g, batch_statistics,
                               {.x = pointer(x),
                                .y = pointer(y),
                                .dy = dy.first.raw(),
                                .more = pointer(dy.second),
                                .gamma = channels(gamma),
                                .beta = channels(beta),
                                .mean = f32(mean),
                                .inv_std = f32(inv_std),
                                .dx = pointer(dx),
                                .dgamma = channels(dgamma),
                                .dbeta = channels(dbeta),
                                .dresidual = pointer(dresidual)});
}

}  // namespace whisker::cuda
