// Pointwise activations as layers, their names, and softmax.
#pragma once

#include "core/ops/ops.h"
#include "layers/module.h"

#include <optional>
#include <string_view>

namespace whisker {

/// "relu", "swish" (silu), "linear" (none), ...: names of Keras and PyTorch.
std::optional<Activation> find_activation(std::string_view name);
std::vector<std::string> activation_names();
/// " relu", or nothing for none: the end of a layer's description.
std::string activation_suffix(ActivationSpec activation);

class ActivationLayer final : public Module {
 public:
  explicit ActivationLayer(ActivationSpec activation) : activation_(activation) {}
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return std::string(name_of(activation_.kind)); }
  Shape output_shape(const Shape& x) const override { return x; }
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
  ActivationSpec activation() const { return activation_; }

 private:
  ActivationSpec activation_;
};

/// Over the last axis.
class Softmax final : public Module {
 public:
  Tensor forward(const Tensor& x, const Pass& pass = {}) override;
  std::string type() const override { return "softmax"; }
  Shape output_shape(const Shape& x) const override;
  OperatorCost cost(const Shape& x, bool x_needs_grad) const override;
};

}  // namespace whisker
