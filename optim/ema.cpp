// The average is one more flat tensor; updating and swapping are one pass each.
#include "optim/ema.h"

#include "core/backend.h"

#include <algorithm>

namespace whisker {

WeightAverage::WeightAverage(ParameterArena& arena, double decay, bool warmup)
    : arena_(arena),
      decay_(decay),
      warmup_(warmup),
      average_(arena.make_like(MemoryCategory::optimizer)) {
  if (!(decay > 0 && decay < 1)) {
    fail(ErrorKind::usage, "ema.decay: expected a number between 0 and 1, got {}", decay);
  }
  average_.copy_(arena.values());
}

void WeightAverage::update() {
  const auto n = static_cast<double>(++updates_);
  const double decay = warmup_ ? std::min(decay_, (1 + n) / (10 + n)) : decay_;
  backend_of(arena_.device()).moving_average(decay, arena_.values(), average_);
}

void WeightAverage::swap() {
  backend_of(arena_.device()).swap(arena_.values(), average_);
  arena_.bump_epoch();
}

}  // namespace whisker
