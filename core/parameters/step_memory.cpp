#include "core/parameters/step_memory.h"

#include "core/backend/backend.h"

#include <cstddef>

namespace whisker {

StepMemory::StepMemory(Device device, const StepState& state)
    : memory_(empty({sizeof(StepState)}, {.dtype = DType::u8, .device = device})) {
  write(state);
}

Tensor StepMemory::loss_scale() const {
  static_assert(offsetof(StepState, loss_scale) % sizeof(float) == 0);
  return Tensor(memory_.storage(), offsetof(StepState, loss_scale) / sizeof(float), {}, DType::f32);
}

Tensor StepMemory::group_weight() const {
  static_assert(offsetof(StepState, group_weight) % sizeof(float) == 0);
  return Tensor(memory_.storage(), offsetof(StepState, group_weight) / sizeof(float), {},
                DType::f32);
}

Tensor StepMemory::sound() const {
  static_assert(offsetof(StepState, sound) % sizeof(int32_t) == 0);
  return Tensor(memory_.storage(), offsetof(StepState, sound) / sizeof(int32_t), {}, DType::i32);
}

StepState StepMemory::read() const {
  StepState copy;
  backend_of(device()).download(state(), &copy, sizeof copy);
  return copy;
}

void StepMemory::write(const StepState& state) {
  backend_of(device()).enqueue_upload(&state, this->state(), sizeof state);
}

void StepMemory::write_inputs(const StepInputs& inputs) {
  backend_of(device()).enqueue_upload(&inputs, &state()->inputs, sizeof inputs);
}

void StepMemory::write_totals(const StepTotals& totals) {
  backend_of(device()).enqueue_upload(&totals, &state()->totals, sizeof totals);
}

}  // namespace whisker
