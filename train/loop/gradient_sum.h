// The ranks' gradients become those of the whole batch, before the optimizer reads them.
//
// Note [Weighted ranks] Each rank's loss is the mean over its rows. Backward begins with the rank's
// fraction of the batch's rows in place of 1, so that the plain sum over the ranks is the gradient
// of the mean over all rows, however uneven the parts. A rank without rows adds zeros.
#pragma once

#include "core/communicator/communicator.h"
#include "core/parameters/parameters.h"
#include "core/parameters/step_memory.h"

#include <vector>

namespace whisker {

class GradientSum {
 public:
  /// Does nothing for one rank. Buckets are contiguous slices of the arena's gradients, the last
  /// layers' first: the order in which backward finishes them.
  GradientSum(const ParameterArena& arena, Communicator& ranks);

  /// Enqueues the sums of all buckets, which must be whole (complete_gradients()). A loss that is
  /// not finite on one rank then stops the update on all.
  void enqueue(StepMemory& memory);

 private:
  Communicator& ranks_;
  std::vector<Tensor> buckets_;
};

}  // namespace whisker
