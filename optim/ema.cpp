// The average is one more flat tensor; updating and swapping are one pass each.
#include "optim/ema.h"

#include "core/backend/backend.h"
#include "core/backend/training_step.h"

namespace whisker {

WeightAverage::WeightAverage(ParameterArena& arena, double decay, bool warmup)
    : arena_(arena),
      decay_(decay),
      warmup_(warmup),
      updates_(zeros({}, {.dtype = DType::i64, .device = arena.device()})),
      average_(arena.make_like(MemoryCategory::optimizer)) {
  if (!(decay > 0 && decay < 1)) {
    fail(ErrorKind::usage, "ema.decay: expected a number between 0 and 1, got {}", decay);
  }
  average_.copy_(arena.values());
  for (const auto& parameter : arena.parameters()) {
    if (parameter->is_buffer()) buffers_.push_back(parameter->master().clone());
  }
}

void WeightAverage::update(const int32_t* applies) {
  backend_of(arena_.device())
      .training_step()
      .moving_average({.decay = decay_,
                       .warmup = warmup_,
                       .applies = applies,
                       .updates = static_cast<int64_t*>(updates_.raw()),
                       .value = arena_.values(),
                       .average = average_});
}

void WeightAverage::copy_buffers() {
  auto buffer = buffers_.begin();
  for (const auto& parameter : arena_.parameters()) {
    if (parameter->is_buffer()) (buffer++)->copy_(parameter->master());
  }
}

void WeightAverage::swap() {
  TrainingStepKernels& kernels = backend_of(arena_.device()).training_step();
  kernels.swap(arena_.values(), average_);
  auto buffer = buffers_.begin();
  for (const auto& parameter : arena_.parameters()) {
    if (parameter->is_buffer()) kernels.swap(parameter->master(), *buffer++);
  }
  arena_.refresh();
}

}  // namespace whisker
