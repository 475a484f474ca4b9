// Layers of transformers, whose tokens are an image of one row.
#include "core/autograd/autograd.h"
#include "layers/layers.h"
#include "train/onnx/layer_nodes.h"

#include <cmath>

namespace whisker::onnx_layers {
namespace {

// The only parameter of a layer that has the layer's own name.
const Parameter& only_parameter(const Module& layer) {
  if (layer.own_parameters().size() != 1) refuse(layer, "expected one parameter");
  return *layer.own_parameters().front();
}

// (positions, channels) as (channels, positions).
template <class T>
Floats channels_first(const std::vector<T>& values, int64_t positions, int64_t channels) {
  Floats turned(values.size());
  for (int64_t i = 0; i < positions; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      turned[static_cast<size_t>(c * positions + i)] =
          static_cast<float>(values[static_cast<size_t>(i * channels + c)]);
    }
  }
  return turned;
}

}  // namespace

OnnxValue add_layer_scale(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  const Parameter& scale = only_parameter(layer);
  Extents64 shape = {scale.shape().count()};
  if (x.shape.rank() == 4) shape.insert(shape.end(), {1, 1});
  const std::string factors =
      context.graph.constant(scale.name(), shape, values_of(context, scale));
  return result_of(layer, x, context.graph.node("Mul", {x.name, factors}));
}

OnnxValue add_class_token(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  OnnxGraph& graph = context.graph;
  const Parameter& parameter = only_parameter(layer);
  const int64_t channels = x.shape[3], count = parameter.shape()[1];
  const std::string token =
      graph.constant(parameter.name(), Extents64{1, channels, 1, count},
                     channels_first(values_of(context, parameter), count, channels));
  const std::string examples = graph.node("Shape", {x.name}, {{"end", int64_t{1}}});
  const std::string extents = graph.node("Concat", {examples, graph.integers({channels, 1, count})},
                                         {{"axis", int64_t{0}}});
  const std::string tokens = graph.node("Expand", {token, extents});
  const std::string row =
      graph.node("Reshape", {x.name, graph.integers({0, channels, 1, x.shape[1] * x.shape[2]})});
  return result_of(layer, x, graph.node("Concat", {tokens, row}, {{"axis", int64_t{3}}}));
}

// softmax(q k^T / sqrt(head_size)) v of all positions.
OnnxValue add_attention(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const MultiHeadAttention&>(module);
  OnnxGraph& graph = context.graph;
  const int64_t channels = x.shape[3], heads = layer.options().heads;
  const int64_t tokens = x.shape[1] * x.shape[2], size = channels / heads;
  const bool timm = layer.options().names == MultiHeadAttention::Names::timm;
  // y = x W^T + b of (N,T,C).
  const auto linear = [&](const std::string& input, const std::string& name,
                          const std::string& prefix) {
    const Parameter *weight = nullptr, *bias = nullptr;
    for (const auto& parameter : layer.own_parameters()) {
      const std::string own =
          parameter->name().substr(layer.path().empty() ? 0 : layer.path().size() + 1);
      if (own == name + prefix + "weight") weight = parameter.get();
      if (own == name + prefix + "bias") bias = parameter.get();
    }
    if (!weight) refuse(layer, fmt::format("it has no parameter '{}{}weight'", name, prefix));
    const Floats values = values_of(context, *weight);
    const int64_t rows = weight->shape()[0], columns = weight->shape()[1];
    Floats turned(values.size());
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) turned[j * rows + i] = values[i * columns + j];
    }
    const std::string y = graph.node(
        "MatMul", {input, graph.constant(weight->name(), Extents64{columns, rows}, turned)});
    return bias ? graph.node("Add", {y, add_parameter(context, *bias)}) : y;
  };
  const std::string flat = graph.node("Reshape", {x.name, graph.integers({0, channels, tokens})});
  const std::string qkv =
      linear(transpose(context, flat, {0, 2, 1}), timm ? "qkv" : "in_proj", timm ? "." : "_");
  const std::string split =  // (3, N, heads, T, size)
      transpose(context, graph.node("Reshape", {qkv, graph.integers({0, tokens, 3, heads, size})}),
                {2, 0, 3, 1, 4});
  const auto part = [&](int64_t index) {
    const std::string one = graph.node("Slice", {split, graph.integers({index}),
                                                 graph.integers({index + 1}), graph.integers({0})});
    return graph.node("Squeeze", {one, graph.integers({0})});
  };
  const std::string scaled =
      graph.node("Mul", {part(0), graph.constant({1 / std::sqrt(static_cast<float>(size))})});
  const std::string scores =
      graph.node("MatMul", {scaled, transpose(context, part(1), {0, 1, 3, 2})});
  const std::string weights = graph.node("Softmax", {scores}, {{"axis", int64_t{-1}}});
  const std::string mixed =
      transpose(context, graph.node("MatMul", {weights, part(2)}), {0, 2, 1, 3});
  const std::string joined = graph.node("Reshape", {mixed, graph.integers({0, tokens, channels})});
  const std::string y = linear(joined, timm ? "proj" : "out_proj", ".");
  const std::string back = graph.node(
      "Reshape",
      {transpose(context, y, {0, 2, 1}), graph.integers({0, channels, x.shape[1], x.shape[2]})});
  return result_of(layer, x, back);
}

// What it adds to zeros, interpolated to the size of these images.
OnnxValue add_position_embedding(const OnnxContext& context, const Module& module,
                                 const OnnxValue& x) {
  auto& layer = const_cast<Module&>(module);  // forward() changes no parameter
  const NoGrad no_grad;
  const Shape one = x.shape.with(0, 1);
  const std::vector<double> added = layer.forward(zeros(one)).to_vector();
  const std::string constant =
      context.graph.constant(only_parameter(layer).name(), Extents64{1, one[3], one[1], one[2]},
                             channels_first(added, one[1] * one[2], one[3]));
  return result_of(layer, x, context.graph.node("Add", {x.name, constant}));
}

OnnxValue add_first_token(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  OnnxGraph& graph = context.graph;
  const int64_t count = layer.output_shape(x.shape)[1] / x.shape[3];
  std::string first = graph.node("Slice", {x.name, graph.integers({0, 0}),
                                           graph.integers({1, count}), graph.integers({2, 3})});
  if (count > 1) first = transpose(context, first, {0, 2, 3, 1});
  return result_of(layer, x, graph.node("Flatten", {first}, {{"axis", int64_t{1}}}));
}

}  // namespace whisker::onnx_layers
