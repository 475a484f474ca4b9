// What operators that fuse a batch_norm in training with others have in common: the checked norm,
// what backward keeps of it, and the gradients that it wants.
#pragma once

#include "core/autograd/autograd.h"
#include "core/backend/fused_ops.h"
#include "core/ops/ops.h"

namespace whisker {

/// Of the checked operands, with memory for its statistics. Throws usage, naming what does not fit.
TrainingNorm training_norm(const Tensor& x, const BatchNormOperands& norm);

/// A norm as backward wants it.
class SavedNorm {
 public:
  /// Without x where `with_x` is false.
  explicit SavedNorm(const TrainingNorm& norm, bool with_x = true);
  TrainingNorm operator()(const Gradients& g) const;

 private:
  BatchNormGeometry geometry_;
  Saved x_, gamma_, beta_, mean_, inv_std_;
};

/// Targets for the inputs x, gamma and beta, the first of which is input `first`.
NormGradients wanted_gradients(Gradients& g, size_t first);

/// The gradient of the result, in parts where the device adds them.
UnsummedGrads grads_for(Device device, Gradients& g);

}  // namespace whisker
