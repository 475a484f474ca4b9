// The backend's softmax and losses.
#include "core/cuda/kernels/loss.h"

#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda {

void CudaBackend::softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) {
  kernels::softmax(stream(), g, y.dtype(), x.raw(), y.raw());
}

void CudaBackend::softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                                   const Tensor& dx) {
  kernels::softmax_backward(stream(), g, dx.dtype(), y.raw(), dy.raw(), dx.raw());
}

void CudaBackend::cross_entropy(const CrossEntropyGeometry& g, const Tensor& logits,
                                const Tensor& target, const Tensor& class_weight,
                                const Tensor& loss, const Tensor& dlogits) {
  context_.enter();
  kernels::cross_entropy(context_, allocator_, g, logits.dtype(),
                         {.logits = logits.raw(),
                          .target = target.raw(),
                          .class_weight = pointer(class_weight),
                          .loss = f32(loss),
                          .dlogits = pointer(dlogits)});
}

void CudaBackend::binary_cross_entropy(const Tensor& logits, const Tensor& target,
                                       const Tensor& loss, const Tensor& dlogits) {
  context_.enter();
  kernels::binary_cross_entropy(context_, allocator_, logits.dtype(), logits.raw(), target.raw(),
                                logits.count(), f32(loss), pointer(dlogits));
}

}  // namespace whisker::cuda
