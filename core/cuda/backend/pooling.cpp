// Pooling.
#include "core/cuda/kernels/pooling.h"

#include "core/backend/pooling.h"
#include "core/cuda/backend/cuda_kernels.h"

namespace whisker::cuda {
namespace {

class Pooling final : public PoolingKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  int64_t workspace_bytes(const Pool2dGeometry& g) override {
    if (g.kind == PoolKind::average) return 0;
    return g.n * g.h_out * g.w_out * g.c * pool2d_argmax_bytes(g);
  }

  void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
              const Tensor& workspace) override {
    context_.enter();
    pool2d_forward(context_, g, x.raw(), y.raw(), workspace.defined() ? workspace.raw() : nullptr);
  }

  void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                       const Tensor& dx) override {
    const void* argmax = workspace.defined() ? workspace.raw() : nullptr;
    context_.enter();
    cuda::pool2d_backward(context_, g, argmax, dy.raw(), dx.raw());
  }
};

}  // namespace

std::shared_ptr<PoolingKernels> make_pooling(CudaDevice& device) {
  return std::make_shared<Pooling>(device);
}

}  // namespace whisker::cuda
