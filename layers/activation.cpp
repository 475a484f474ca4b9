// Names of activations, and the layers.
#include "layers/activation.h"

#include <utility>

namespace whisker {
namespace {

constexpr std::pair<const char*, Activation> named_activations[] = {
    {"linear", Activation::none},
    {"none", Activation::none},
    {"relu", Activation::relu},
    {"leaky_relu", Activation::leaky_relu},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
    {"gelu", Activation::gelu},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"softplus", Activation::softplus},
    {"relu6", Activation::relu6},
    {"hard_sigmoid", Activation::hard_sigmoid},
    {"hard_swish", Activation::hard_swish},
};

}  // namespace

std::optional<Activation> find_activation(std::string_view name) {
  for (const auto& [known, activation] : named_activations) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

std::vector<std::string> activation_names() {
  std::vector<std::string> names;
  for (const auto& row : named_activations) names.push_back(row.first);
  return names;
}

std::string activation_suffix(ActivationSpec activation) {
  if (activation.kind == Activation::none) return {};
  return fmt::format(" {}", name_of(activation.kind));
}

Tensor ActivationLayer::forward(const Tensor& x, const Pass&) {
  return whisker::activation(x, activation_);
}

OperatorCost ActivationLayer::cost(const Shape&, bool x_needs_grad) const {
  const bool from_output = grad_from_output(activation_.kind);
  return {.keeps_input = x_needs_grad && !from_output, .keeps_output = x_needs_grad && from_output};
}

Tensor Softmax::forward(const Tensor& x, const Pass&) {
  return softmax(x);
}

Shape Softmax::output_shape(const Shape& x) const {
  if (x.rank() == 0) fail(ErrorKind::usage, "softmax: expected at least one axis, got {}", x);
  return x;
}

OperatorCost Softmax::cost(const Shape&, bool x_needs_grad) const {
  return {.keeps_output = x_needs_grad};
}

}  // namespace whisker
