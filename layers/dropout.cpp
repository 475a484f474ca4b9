// The random key of a layer comes from its name.
#include "layers/dropout.h"

#include "core/ops/ops.h"
#include "core/tensor/philox.h"

namespace whisker {
namespace {

RandomKey key_of(const Module& layer, const Pass& pass) {
  return {.seed = pass.seed,
          .stream = stream_of(layer.path()),
          .step = pass.step,
          .offset = pass.random_offset};
}

}  // namespace

Dropout::Dropout(double rate) : rate_(rate) {
  if (!(rate >= 0 && rate < 1)) {
    fail(ErrorKind::usage, "dropout: expected a rate in [0, 1), got {}", rate);
  }
}

Tensor Dropout::forward(const Tensor& x, const Pass& pass) {
  if (!pass.training || rate_ == 0) return x;
  return dropout(x, rate_, key_of(*this, pass));
}

std::string Dropout::describe() const {
  return fmt::format("{}", rate_);
}

DropPath::DropPath(double rate) {
  set_rate(rate);
}

void DropPath::set_rate(double rate) {
  if (!(rate >= 0 && rate < 1)) {
    fail(ErrorKind::usage, "drop_path: expected a rate in [0, 1), got {}", rate);
  }
  rate_ = rate;
}

Tensor DropPath::forward(const Tensor& x, const Pass& pass) {
  if (!pass.training || rate_ == 0) return x;
  return drop_path(x, rate_, key_of(*this, pass));
}

std::string DropPath::describe() const {
  return fmt::format("{:.3g}", rate_);
}

Shape DropPath::output_shape(const Shape& x) const {
  if (x.rank() != 2 && x.rank() != 4) {
    fail(ErrorKind::usage, "drop_path: expected (N,C) or images (N,H,W,C), got {}", x);
  }
  return x;
}

OperatorCost DropPath::cost(const Shape& x, bool x_needs_grad) const {
  return {.kept_elements = x_needs_grad && rate_ > 0 ? x[0] : 0};  // the mask
}

}  // namespace whisker
