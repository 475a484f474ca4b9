// Softmax and the losses.
#include "core/cuda/ops/losses.h"

#include "core/backend/losses.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/cuda_kernels.h"

namespace whisker::cuda {
namespace {

class Losses final : public LossKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    kernels::softmax(stream(), g, y.dtype(), x.raw(), y.raw());
  }

  void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                        const Tensor& dx) override {
    kernels::softmax_backward(stream(), g, dx.dtype(), y.raw(), dy.raw(), dx.raw());
  }

  void cross_entropy(const CrossEntropyGeometry& g, const LossInputs& in,
                     const LossOutputs& out) override {
    context_.enter();
    kernels::cross_entropy(context_, allocator_, g, in.logits.dtype(),
                           {.logits = in.logits.raw(),
                            .target = in.target.raw(),
                            .class_weight = pointer(in.class_weight),
                            .loss = f32(out.loss),
                            .dlogits = pointer(out.dlogits)});
  }

  void binary_cross_entropy(const LossInputs& in, const LossOutputs& out) override {
    context_.enter();
    kernels::binary_cross_entropy(context_, allocator_, in.logits.dtype(), in.logits.raw(),
                                  in.target.raw(), in.logits.count(), f32(out.loss),
                                  pointer(out.dlogits));
  }
};

}  // namespace

std::shared_ptr<LossKernels> make_losses(CudaDevice& device) {
  return std::make_shared<Losses>(device);
}

}  // namespace whisker::cuda
