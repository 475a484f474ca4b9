// Parameters and buffers under PyTorch's names; the operator does the rest.
#include "layers/batch_norm.h"

#include "core/autograd/autograd.h"
#include "core/backend/normalization.h"
#include "layers/initializers.h"

namespace whisker {

BatchNorm::BatchNorm(const Options& options) : options_(options) {
  const Options& o = options_;
  if (o.channels < 1 || !(o.momentum >= 0 && o.momentum <= 1) || !(o.epsilon > 0)) {
    fail(ErrorKind::usage,
         "batch_norm: expected channels of at least 1, momentum in [0, 1] and epsilon above 0, got "
         "{}, {} and {}",
         o.channels, o.momentum, o.epsilon);
  }
  const Shape shape{o.channels};
  const auto constant = [](double value) {
    return make_initializer({.kind = InitializerKind::constant, .value = value}, {});
  };
  weight_ = add_parameter("weight", shape, ParameterRole::norm, constant(o.initial_weight));
  bias_ = add_parameter("bias", shape, ParameterRole::norm, constant(0));
  running_mean_ = add_parameter("running_mean", shape, ParameterRole::buffer, constant(0));
  running_var_ = add_parameter("running_var", shape, ParameterRole::buffer, constant(1));
  for (const auto& parameter : own_parameters()) {
    parameter->flattened_channels = o.flattened_channels;
  }
}

Tensor BatchNorm::forward(const Tensor& x, const Pass& pass) {
  return forward_value({.y = x}, pass).y;
}

LayerValue BatchNorm::forward_value(const LayerValue& x, const Pass& pass) {
  const BatchNormOperands norm = operands(x.sums, pass);
  return {.y = batch_norm(x.y, norm.gamma, norm.beta, norm.state, norm.options)};
}

BatchNormOperands BatchNorm::operands(const Tensor& sums, const Pass& pass) const {
  return {.gamma = weight_->value(),
          .beta = bias_->value(),
          .state = {.running_mean = running_mean_->value(),
                    .running_var = running_var_->value(),
                    .pending_mean = running_mean_->pending(),
                    .pending_var = running_var_->pending(),
                    .sums = sums},
          .options = {.training = uses_batch(pass),
                      .momentum = options_.momentum,
                      .epsilon = options_.epsilon,
                      .activation = options_.activation,
                      .ranks = pass.norm_ranks}};
}

FoldedWeights BatchNorm::fold(const Tensor& w, const Tensor& b, DType dtype) const {
  const NoGrad off_tape;
  const MemoryScope scope(MemoryCategory::parameters);
  const BatchNormOperands norm = operands({}, {});
  const Tensor variance = affine(norm.state.running_var, 1, options_.epsilon);
  const Tensor scale = norm.gamma / sqrt(variance);
  const Tensor& mean = norm.state.running_mean;
  const Tensor bias = norm.beta + (b.defined() ? b - mean : -mean) * scale;
  Shape rows = w.shape();
  for (int axis = 1; axis < rows.rank(); ++axis) rows = rows.with(axis, 1);
  FoldedWeights folded{.weight = (w * scale.reshape(rows)).to(dtype), .bias = bias.to(dtype)};
  folded.weight.storage()->set_constant();
  return folded;
}

std::string BatchNorm::describe() const {
  const std::string text = activation_suffix(options_.activation);
  return text.empty() ? text : text.substr(1);
}

Shape BatchNorm::output_shape(const Shape& x) const {
  if (x.rank() < 2 || x[-1] != options_.channels) {
    fail(ErrorKind::usage, "batch_norm: expected (N, ..., {}), got {}", options_.channels, x);
  }
  return x;
}

OperatorCost BatchNorm::cost(const Shape&, bool x_needs_grad) const {
  const bool needs = x_needs_grad || !frozen();
  const bool active = options_.activation.kind != Activation::none;
  // Backward computes the activation's operand from x again.
  const bool recomputed = !grad_from_output(options_.activation.kind) &&
                          batch_norm_computes(options_.activation, true);
  const int64_t statistics = frozen() ? 1 : 2;  // what is not stored anyway
  return {.keeps_input = needs,
          .keeps_output = needs && active && !recomputed,
          .kept_bytes = needs ? statistics * options_.channels * element_bytes : 0};
}

}  // namespace whisker
