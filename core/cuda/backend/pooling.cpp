// Pooling.
#include "core/cuda/ops/pooling.h"

#include "core/backend/pooling.h"
#include "core/cuda/ops/cuda_kernels.h"
#include "core/cuda/ops/reduction.h"

namespace whisker::cuda {
namespace {

/// The only window is the image.
bool averages_images(const Pool2dGeometry& g) {
  return g.kind == PoolKind::average && g.h_out == 1 && g.w_out == 1 &&
         g.kernel_h - g.pad_top >= g.h && g.kernel_w - g.pad_left >= g.w &&
         g.divisor(0, 0) == g.h * g.w;
}

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
    if (averages_images(g)) {
      const ReduceGeometry pixels{.rank = 3,
                                  .extent = {g.n, g.h * g.w, g.c},
                                  .reduced = {false, true, false},
                                  .out_count = g.n * g.c,
                                  .reduce_count = g.h * g.w};
      kernels::reduce(context_, allocator_, ReduceOp::mean, pixels, g.dtype, x.raw(), y.raw());
      return;
    }
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
