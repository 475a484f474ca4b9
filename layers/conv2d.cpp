// Weight first, then bias: the order PyTorch lists them in.
#include "layers/conv2d.h"

#include "layers/pool.h"

namespace whisker {

Conv2D::Conv2D(const Options& options) : options_(options) {
  const Options& o = options_;
  if (o.in_channels < 1 || o.filters < 1 || o.groups < 1 || o.in_channels % o.groups != 0 ||
      o.filters % o.groups != 0) {
    fail(ErrorKind::usage,
         "conv2d: {} input channels and {} filters in {} groups; both must be positive multiples "
         "of the groups",
         o.in_channels, o.filters, o.groups);
  }
  if (o.kernel.h < 1 || o.kernel.w < 1) {
    fail(ErrorKind::usage, "conv2d: kernel must be at least 1, got {}x{}", o.kernel.h, o.kernel.w);
  }
  const Shape shape{o.filters, o.kernel.h, o.kernel.w, o.in_channels / o.groups};
  const Fans fans = fans_of(shape);
  weight_ = add_parameter("weight", shape, ParameterRole::conv_weight,
                          make_initializer(o.weight_initializer, fans));
  if (o.bias) {
    bias_ = add_parameter("bias", {o.filters}, ParameterRole::bias,
                          make_initializer(o.bias_initializer, fans, true));
  }
}

Conv2dOptions Conv2D::operator_options() const {
  return {.stride = options_.stride,
          .padding = options_.padding,
          .padding_mode = options_.padding_mode,
          .dilation = options_.dilation,
          .groups = options_.groups,
          .activation = options_.activation,
          .max_pool = options_.max_pool};
}

Tensor Conv2D::forward(const Tensor& x, const Pass&) {
  return forward_add(x, {});
}

Tensor Conv2D::forward_add(const Tensor& x, const Tensor& residual) {
  if (is_folded()) {
    return conv2d(x, folded_.weight, folded_.bias, operator_options(), residual);
  }
  const Tensor b = bias_ ? bias_->value() : Tensor();
  return conv2d(x, weight_->value(), b, operator_options(), residual);
}

void Conv2D::fold(const BatchNorm& norm, DType dtype) {
  folded_ = norm.fold(weight_->master(), bias_ ? bias_->master() : Tensor(), dtype);
}

bool Conv2D::is_bare() const {
  return !bias_ && options_.activation.kind == Activation::none && !options_.max_pool;
}

Convolved Conv2D::forward_with_sums(const Tensor& x) {
  if (!is_bare()) return {.y = forward(x, {})};
  return conv2d_with_sums(x, weight_->value(), operator_options());
}

bool Conv2D::takes_norm(const Tensor& x, const BatchNormOperands& norm) const {
  return is_bare() && batch_norm_conv2d_is_fused(x, norm, weight_->value(), operator_options());
}

Convolved Conv2D::forward_normalised(const Tensor& x, const BatchNormOperands& norm) {
  return batch_norm_conv2d(x, norm, weight_->value(), operator_options());
}

std::string Conv2D::describe() const {
  const Options& o = options_;
  std::string text = fmt::format("{} {}x{}", o.filters, o.kernel.h, o.kernel.w);
  if (!(o.stride == Pair(1))) text += fmt::format(" /{}", o.stride.h);
  if (o.groups > 1) text += fmt::format(" groups {}", o.groups);
  text += activation_suffix(o.activation);
  return o.max_pool ? text + ", max-pool " + describe_windows(*o.max_pool) : text;
}

Conv2dGeometry Conv2D::geometry(const Shape& x, DType dtype) const {
  return conv2d_geometry(x, weight_->shape(), options_.bias, operator_options(), dtype);
}

Shape Conv2D::convolved_shape(const Shape& x) const {
  const Conv2dGeometry g = geometry(x);
  return {g.n, g.h_out, g.w_out, g.c_out};
}

Shape Conv2D::output_shape(const Shape& x) const {
  const Shape z = convolved_shape(x);
  return options_.max_pool ? pooled_shape(PoolKind::max, z, *options_.max_pool) : z;
}

OperatorCost Conv2D::cost(const Shape& x, bool x_needs_grad) const {
  const Shape z = convolved_shape(x);
  const Shape y = output_shape(x);
  const bool needs = x_needs_grad || !frozen();
  const bool active = options_.activation.kind != Activation::none;
  const bool fused = grad_from_output(options_.activation.kind);
  OperatorCost cost{.multiply_adds = z.count() * (weight_->shape().count() / options_.filters),
                    .keeps_input = weight_->trainable(),
                    .keeps_output = needs && active && fused,
                    .kept_elements = needs && !fused ? z.count() : 0,
                    .convolution = geometry(x)};
  if (options_.max_pool) {
    // The convolution's result, or its gradient, and that of the pooled result.
    cost.transient_bytes = (z.count() + (active ? y.count() : 0)) * element_bytes;
    cost.convolution->activation = {};
    if (needs) cost.kept_bytes += y.count() * pool_argmax_bytes;
  }
  return cost;
}

}  // namespace whisker
