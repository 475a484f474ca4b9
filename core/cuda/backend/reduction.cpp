// Reductions over axes.
#include "core/cuda/ops/reduction.h"

#include "core/backend/reduction.h"
#include "core/cuda/ops/cuda_kernels.h"

namespace whisker::cuda {
namespace {

class Reduction final : public ReductionKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override {
    context_.enter();
    kernels::reduce(context_, allocator_, op, g, x.dtype(), x.raw(), y.raw());
  }

  void sum_products(const ReduceGeometry& g, const Tensor& a, const Tensor& b,
                    const Tensor& y) override {
    context_.enter();
    kernels::sum_products(context_, allocator_, g, y.dtype(), a.raw(), b.raw(), y.raw());
  }

  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    kernels::argmax(stream(), g, x.dtype(), x.raw(), static_cast<int64_t*>(y.raw()));
  }
};

}  // namespace

std::shared_ptr<ReductionKernels> make_reduction(CudaDevice& device) {
  return std::make_shared<Reduction>(device);
}

}  // namespace whisker::cuda
