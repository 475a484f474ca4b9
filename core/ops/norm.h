// What batch_norm and the operators that fuse it with others check and compute alike.
#pragma once

#include "core/autograd/autograd.h"
#include "core/backend/fused_ops.h"
#include "core/ops/ops.h"

#include <string>

namespace whisker {

/// The norm's geometry and operands, its statistics undefined. Throws usage, naming what does not
/// fit.
TrainingNorm checked_norm(const Tensor& x, const BatchNormOperands& norm);
/// Adds memory for the statistics, and the running ones. Throws usage where x has too few rows for
/// statistics or the state does not fit.
void prepare_training(TrainingNorm& norm, const BatchNormOperands& operands);
/// Both.
TrainingNorm training_norm(const Tensor& x, const BatchNormOperands& norm);
/// The forward pass of training, without a record of it; the statistics are written.
Tensor normalise_batch(const TrainingNorm& norm);
/// The forward pass over the rows of all ranks in options.ranks, recorded: batch_norm() in
/// training, as Ioffe and Szegedy have it of a batch in one place.
Tensor synced_batch_norm(const Tensor& x, const BatchNormOperands& operands);
/// The options' text for describe_op(): "epsilon 1e-05, training, relu".
std::string attributes_of(const BatchNormOptions& options);
/// Tells the version checks that the pending statistics were written.
void note_pending(const RunningStatistics& running);

/// A norm as backward wants it.
class SavedNorm {
 public:
  /// Without x where `with_x` is false.
  explicit SavedNorm(const TrainingNorm& norm, bool with_x = true);
  TrainingNorm operator()(const Gradients& g) const;

 private:
  BatchNormGeometry geometry_;
  Saved x_, gamma_, beta_, residual_, mean_, inv_std_;
};
/// Targets for the inputs x, gamma and beta, the first of which is input `first`.
NormGrads wanted_gradients(Gradients& g, size_t first);
/// The gradient of the result, in parts where the device adds them.
UnsummedGrads grads_for(Device device, Gradients& g);

}  // namespace whisker
