// The random key of a layer comes from its name.
#include "layers/dropout.h"

#include "core/ops/ops.h"
#include "core/tensor/philox.h"

namespace whisker {

Dropout::Dropout(double rate) : rate_(rate) {
  if (!(rate >= 0 && rate < 1)) {
    fail(ErrorKind::usage, "dropout: expected a rate in [0, 1), got {}", rate);
  }
}

Tensor Dropout::forward(const Tensor& x, const Pass& pass) {
  if (!pass.training || rate_ == 0) return x;
  return dropout(x, rate_,
                 {.seed = pass.seed,
                  .stream = stream_of(path()),
                  .step = pass.step,
                  .offset = pass.random_offset});
}

std::string Dropout::describe() const {
  return fmt::format("{}", rate_);
}

}  // namespace whisker
