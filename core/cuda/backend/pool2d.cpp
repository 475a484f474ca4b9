// The backend's pooling methods.
#include "core/cuda/kernels/pool2d.h"

#include "core/cuda/backend/cuda_backend.h"

namespace whisker::cuda {

int64_t CudaBackend::pool2d_workspace_bytes(const Pool2dGeometry& g) {
  if (g.kind == PoolKind::average) return 0;
  return g.n * g.h_out * g.w_out * g.c * pool2d_argmax_bytes(g);
}

void CudaBackend::pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
                         const Tensor& workspace) {
  context_.enter();
  pool2d_forward(context_, g, x.raw(), y.raw(), workspace.defined() ? workspace.raw() : nullptr);
}

void CudaBackend::pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace,
                                  const Tensor& dy, const Tensor& dx) {
  const void* argmax = workspace.defined() ? workspace.raw() : nullptr;
  context_.enter();
  cuda::pool2d_backward(context_, g, argmax, dy.raw(), dx.raw());
}

}  // namespace whisker::cuda
