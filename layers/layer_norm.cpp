// Gamma starts at one, beta at zero.
#include "layers/layer_norm.h"

#include "core/ops/ops.h"
#include "layers/initializers.h"

namespace whisker {

LayerNorm::LayerNorm(const Options& options) : options_(options) {
  if (options.features < 1 || !(options.epsilon > 0)) {
    fail(ErrorKind::usage,
         "layer_norm: expected features of at least 1 and epsilon above 0, got {} and {}",
         options.features, options.epsilon);
  }
  weight_ = add_parameter("weight", {options.features}, ParameterRole::norm,
                          make_initializer(InitializerSpec::ones(), {}));
  bias_ = add_parameter("bias", {options.features}, ParameterRole::norm,
                        make_initializer(InitializerSpec::zeros(), {}));
  weight_->flattened_channels = options.flattened_channels;
  bias_->flattened_channels = options.flattened_channels;
}

Tensor LayerNorm::forward(const Tensor& x, const Pass&) {
  return layer_norm(x, weight_->value(), bias_->value(), options_.epsilon);
}

Shape LayerNorm::output_shape(const Shape& x) const {
  if (x.rank() < 1 || x[-1] != options_.features) {
    fail(ErrorKind::usage, "layer_norm: expected (..., {}), got {}", options_.features, x);
  }
  return x;
}

OperatorCost LayerNorm::cost(const Shape& x, bool x_needs_grad) const {
  const bool needs = x_needs_grad || !frozen();
  const int64_t rows = x.count() / options_.features;
  return {.keeps_input = needs, .kept_bytes = needs ? 2 * rows * element_bytes : 0};
}

}  // namespace whisker
