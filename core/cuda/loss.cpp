// The backend's softmax and losses.
#include "core/cuda/operators/loss.h"

#include "core/cuda/cuda_backend.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda {
namespace {

kernels::CrossEntropy operands_of(const Tensor& logits, const Tensor& target,
                                  const Tensor& class_weight, const Tensor& loss,
                                  const Tensor& dlogits) {
  return {.logits = logits.raw(),
          .target = target.raw(),
          .class_weight = pointer(class_weight),
          .loss = f32(loss),
          .dlogits = pointer(dlogits)};
}

}  // namespace

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
                         operands_of(logits, target, class_weight, loss, dlogits));
}

void CudaBackend::cross_entropy_and_count(const CrossEntropyGeometry& g, const Tensor& logits,
                                          const Tensor& target, const Tensor& class_weight,
                                          const Tensor& loss, const Tensor& dlogits,
                                          const BatchCount& count) {
  if (g.classes == 1) {  // two classes told apart by the sign
    return Backend::cross_entropy_and_count(g, logits, target, class_weight, loss, dlogits, count);
  }
  context_.enter();
  kernels::CrossEntropy operands = operands_of(logits, target, class_weight, loss, dlogits);
  operands.counting = {.rule = count.rule,
                       .labels = static_cast<const int64_t*>(count.labels.raw()),
                       .state = count.state};
  kernels::cross_entropy(context_, allocator_, g, logits.dtype(), operands);
}

void CudaBackend::binary_cross_entropy(const Tensor& logits, const Tensor& target,
                                       const Tensor& loss, const Tensor& dlogits) {
  context_.enter();
  kernels::binary_cross_entropy(context_, allocator_, logits.dtype(), logits.raw(), target.raw(),
                                logits.count(), f32(loss), pointer(dlogits));
}

}  // namespace whisker::cuda
