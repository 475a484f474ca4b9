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

void WeightAverage::swap() {
  backend_of(arena_.device()).training_step().swap(arena_.values(), average_);
  arena_.refresh();
}

}  // namespace whisker
