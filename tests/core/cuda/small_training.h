// A training step that allocates and launches much as a real one does: convolution, normalisation,
// pooling, dropout, a dense layer, loss, backward, norm, update. Whatever it needs from step to
// step is in memory allocated beforehand, so that it can be captured.
#pragma once

#include "core/parameters/parameters.h"
#include "core/parameters/step_memory.h"

#include <memory>
#include <vector>

namespace whisker::test {

class SmallTraining {
 public:
  explicit SmallTraining(Device device);

  /// Images and labels of another batch, in the same memory; does not wait.
  void load(int64_t batch);
  /// Forward, backward, update: enqueues only.
  void step();

  /// Of all steps so far; waits.
  StepState state() const { return memory_.read(); }
  std::vector<double> weights() const { return arena_->values().to_vector(); }

 private:
  Device device_;
  StepMemory memory_;
  Tensor images_, labels_, groups_;
  std::shared_ptr<Parameter> filters_, bias_, gamma_, beta_, dense_;
  std::unique_ptr<ParameterArena> arena_;
  Tensor momentum_;
};

}  // namespace whisker::test
