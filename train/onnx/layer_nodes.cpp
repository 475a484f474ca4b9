#include "train/onnx/layer_nodes.h"

#include "core/error.h"
#include "layers/weights/weights.h"

#include <algorithm>
#include <numbers>
#include <utility>

namespace whisker::onnx_layers {

void refuse(const Module& layer, std::string_view why) {
  fail(ErrorKind::usage, "export: layer '{}' ({}): {}", layer.path(), layer.type(), why);
}

// The layer's own parameter of that name; null when it has none.
const Parameter* find_parameter(const Module& layer, std::string_view name) {
  for (const auto& parameter : layer.own_parameters()) {
    const std::string& full = parameter->name();
    if (full.substr(full.rfind('.') + 1) == name) return parameter.get();
  }
  return nullptr;
}
const Parameter& parameter_of(const Module& layer, std::string_view name) {
  const Parameter* found = find_parameter(layer, name);
  if (!found) refuse(layer, fmt::format("it has no parameter '{}'", name));
  return *found;
}

// In the order of files.
Floats values_of(const OnnxContext& context, const Parameter& parameter) {
  return to_file_order(parameter, context.arena.read(parameter));
}

std::string add_parameter(const OnnxContext& context, const Parameter& parameter) {
  const Shape shape = file_shape(parameter);
  return context.graph.constant(parameter.name(), Extents64(shape.begin(), shape.end()),
                                values_of(context, parameter));
}

std::string transpose(const OnnxContext& context, const std::string& x, Extents64 axes) {
  return context.graph.node("Transpose", {x}, {{"perm", std::move(axes)}});
}
std::string to_channels_last(const OnnxContext& context, const std::string& x) {
  return transpose(context, x, {0, 2, 3, 1});
}
std::string to_channels_first(const OnnxContext& context, const std::string& x) {
  return transpose(context, x, {0, 3, 1, 2});
}

// f(x) by the name that activations have in model files.
std::string add_activation(const OnnxContext& context, const Module& layer, ActivationSpec f,
                           const std::string& x) {
  OnnxGraph& graph = context.graph;
  const std::string_view name = name_of(f.kind);
  if (f.kind == Activation::none) return x;
  if (name == "relu") return graph.node("Relu", {x});
  if (name == "leaky_relu") return graph.node("LeakyRelu", {x}, {{"alpha", f.slope}});
  if (name == "sigmoid") return graph.node("Sigmoid", {x});
  if (name == "tanh") return graph.node("Tanh", {x});
  if (name == "softplus") return graph.node("Softplus", {x});
  if (name == "silu") return graph.node("Mul", {x, graph.node("Sigmoid", {x})});
  if (name == "relu6") return graph.node("Clip", {x, graph.constant({0}), graph.constant({6})});
  if (name == "hard_swish") return graph.node("HardSwish", {x});
  if (name == "hard_sigmoid") {
    return graph.node("HardSigmoid", {x}, {{"alpha", 1.0f / 6}, {"beta", 0.5f}});
  }
  if (name == "gelu") {
    const std::string scaled =
        graph.node("Mul", {x, graph.constant({1 / std::numbers::sqrt2_v<float>})});
    const std::string sum = graph.node("Add", {graph.node("Erf", {scaled}), graph.constant({1})});
    return graph.node("Mul", {graph.node("Mul", {x, graph.constant({0.5f})}), sum});
  }
  refuse(layer, fmt::format("no ONNX form is known of the activation {}", name));
}

OnnxValue result_of(const Module& layer, const OnnxValue& x, std::string name) {
  return {std::move(name), layer.output_shape(x.shape)};
}

// Elements behind the last that windows of `reach` elements need, from `begin` before the first.
int64_t end_padding(int64_t extent, int64_t out, int64_t stride, int64_t reach, int64_t begin) {
  return std::max<int64_t>((out - 1) * stride + reach - extent - begin, 0);
}

}  // namespace whisker::onnx_layers
