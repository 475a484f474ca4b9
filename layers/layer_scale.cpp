// A product that broadcasts.
#include "layers/layer_scale.h"

#include "core/ops/ops.h"
#include "layers/initializers.h"

namespace whisker {

LayerScale::LayerScale(const Options& options) : options_(options) {
  scale_ = add_parameter(
      "", {options.channels, 1, 1}, ParameterRole::bias,
      make_initializer({.kind = InitializerKind::constant, .value = options.initial}, {}));
}

Tensor LayerScale::forward(const Tensor& x, const Pass&) {
  return x * scale_->value().reshape({options_.channels});
}

Shape LayerScale::output_shape(const Shape& x) const {
  if (x.rank() < 1 || x[-1] != options_.channels) {
    fail(ErrorKind::usage, "layer_scale: expected (..., {}), got {}", options_.channels, x);
  }
  return x;
}

OperatorCost LayerScale::cost(const Shape&, bool) const {
  return {.keeps_input = scale_->trainable()};
}

}  // namespace whisker
