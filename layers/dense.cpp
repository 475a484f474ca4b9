// x w^T + b over the last axis.
#include "layers/dense.h"

namespace whisker {

Dense::Dense(const Options& options) : options_(options) {
  const Options& o = options_;
  if (o.in_features < 1 || o.units < 1) {
    fail(ErrorKind::usage, "dense: {} input features and {} units; both must be at least 1",
         o.in_features, o.units);
  }
  const Shape shape{o.units, o.in_features};
  const Fans fans = fans_of(shape);
  weight_ = add_parameter("weight", shape, ParameterRole::weight,
                          make_initializer(o.weight_initializer, fans));
  weight_->flattened_channels = o.flattened_channels;
  if (o.bias) {
    bias_ = add_parameter("bias", {o.units}, ParameterRole::bias,
                          make_initializer(o.bias_initializer, fans, true));
  }
}

Tensor Dense::forward(const Tensor& x, const Pass&) {
  if (is_folded()) {
    return linear(x, folded_.weight, folded_.bias, options_.activation);
  }
  return linear(x, weight_->value(), bias_ ? bias_->value() : Tensor(), options_.activation);
}

void Dense::fold(const BatchNorm& norm, DType dtype) {
  folded_ = norm.fold(weight_->master(), bias_ ? bias_->master() : Tensor(), dtype);
}

std::string Dense::describe() const {
  return fmt::format("{}{}", options_.units, activation_suffix(options_.activation));
}

Shape Dense::output_shape(const Shape& x) const {
  if (x.rank() < 1 || x[-1] != options_.in_features) {
    fail(ErrorKind::usage, "dense: expected (..., {}), got {}", options_.in_features, x);
  }
  return x.with(-1, options_.units);
}

OperatorCost Dense::cost(const Shape& x, bool x_needs_grad) const {
  const Shape y = output_shape(x);
  const bool needs = x_needs_grad || !frozen();
  const bool active = options_.activation.kind != Activation::none;
  const bool fused = grad_from_output(options_.activation.kind);
  return {.multiply_adds = y.count() * options_.in_features,
          .keeps_input = weight_->trainable(),
          .keeps_output = needs && active && fused,
          .kept_elements = needs && !fused ? y.count() : 0};
}

}  // namespace whisker
