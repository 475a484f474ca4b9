// The backend's layer normalisation.
#include "core/cuda/norm/layer_norm.h"

#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda {

void CudaBackend::layer_norm(const LayerNormGeometry& g, const Tensor& x, const Tensor& gamma,
                             const Tensor& beta, const Tensor& y, const Tensor& mean,
                             const Tensor& inv_std) {
  context_.enter();
  kernels::layer_norm(context_, g,
                      {.dtype = x.dtype(),
                       .x = x.raw(),
                       .y = y.raw(),
                       .gamma = channels(gamma),
                       .beta = channels(beta),
                       .mean = f32(mean),
                       .inv_std = f32(inv_std)});
}

void CudaBackend::layer_norm_backward(const LayerNormGeometry& g, const Tensor& x,
                                      const Tensor& gamma, const Tensor& mean,
                                      const Tensor& inv_std, const Tensor& dy, const Tensor& dx,
                                      const Tensor& dgamma, const Tensor& dbeta) {
  context_.enter();
  kernels::layer_norm_backward(context_, allocator_, g,
                               {.dtype = dy.dtype(),
                                .x = pointer(x),
                                .dy = dy.raw(),
                                .gamma = channels(gamma),
                                .mean = f32(mean),
                                .inv_std = f32(inv_std),
                                .dx = pointer(dx),
                                .dgamma = channels(dgamma),
                                .dbeta = channels(dbeta)});
}

}  // namespace whisker::cuda
