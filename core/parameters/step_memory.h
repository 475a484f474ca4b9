// A StepState in a device's memory, and how the host writes and reads it.
#pragma once

#include "core/backend/step_state.h"
#include "core/tensor/tensor.h"

namespace whisker {

class StepMemory {
 public:
  explicit StepMemory(Device device, const StepState& state = {});

  Device device() const { return memory_.device(); }
  /// In device memory, for backends; the host may dereference it on host devices only.
  StepState* state() const { return static_cast<StepState*>(memory_.raw()); }
  /// StepState::loss_scale, a scalar f32 on the device.
  Tensor loss_scale() const;
  /// StepState::group_weight, likewise.
  Tensor group_weight() const;
  /// StepState::sound, a scalar i32 on the device.
  Tensor sound() const;

  /// Waits for the device's work so far.
  StepState read() const;
  /// In order with the device's operators, without waiting.
  void write(const StepState& state);
  void write_inputs(const StepInputs& inputs);
  void write_totals(const StepTotals& totals);

 private:
  Tensor memory_;  // u8 (sizeof(StepState))
};

}  // namespace whisker
