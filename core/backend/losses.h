// The kernels of softmax and of the losses.
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/operands.h"

namespace whisker {

struct LossInputs {
  const Tensor& logits;                    ///< (rows, classes); of binary_cross_entropy any shape
  const Tensor& target;                    ///< i64 (rows), or as logits
  const Tensor& class_weight = no_tensor;  ///< (classes), where g.weighted

  LossInputs map(auto&& fn) const { return {fn(logits), fn(target), fn(class_weight)}; }
};

struct LossOutputs {
  const Tensor& loss;                 ///< one element, f32 (f64 of f64 logits)
  const Tensor& dlogits = no_tensor;  ///< as logits; computed when defined

  LossOutputs map(auto&& fn) const { return {fn(loss), fn(dlogits)}; }
};

class LossKernels {
 public:
  virtual ~LossKernels() = default;

  virtual void softmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) = 0;
  virtual void softmax_backward(const SoftmaxGeometry& g, const Tensor& y, const Tensor& dy,
                                const Tensor& dx) = 0;
  /// Mean loss and its gradient in one pass. Labels outside [0, classes): the host throws data
  /// (core/backend/host_label.h), a GPU sets its error word.
  virtual void cross_entropy(const CrossEntropyGeometry& g, const LossInputs& in,
                             const LossOutputs& out) = 0;
  /// Mean over all elements; target in [0, 1].
  virtual void binary_cross_entropy(const LossInputs& in, const LossOutputs& out) = 0;
};

}  // namespace whisker
