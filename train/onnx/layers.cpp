// The table of layers, and those that have no file of their own: with weights, recurrent, without
// weights, containers. Images stand as (N,C,H,W) in the graph, sequences as (T,N,F), everything
// else as here.
#include "train/onnx/layers.h"

#include "core/ops/ops.h"
#include "layers/layers.h"
#include "train/onnx/layer_nodes.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace whisker {
namespace onnx_layers {
namespace {

// --- layers with weights

OnnxValue add_conv2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const Conv2D&>(module);
  const Conv2D::Options& o = layer.options();
  if (o.max_pool) refuse(layer, "a fused pooling is no layer of a model file");
  const Shape y = layer.output_shape(x.shape);
  const auto padding = [&](int64_t extent, int64_t out, int64_t stride, int64_t kernel,
                           int64_t dilation, int64_t given) {
    const int64_t reach = dilation * (kernel - 1) + 1;
    const int64_t same = end_padding(extent, out, stride, reach, 0) / 2;
    const int64_t begin = o.padding_mode == PaddingMode::number ? given : same;
    return std::pair(begin, end_padding(extent, out, stride, reach, begin));
  };
  const auto [top, bottom] =
      padding(x.shape[1], y[1], o.stride.h, o.kernel.h, o.dilation.h, o.padding.h);
  const auto [left, right] =
      padding(x.shape[2], y[2], o.stride.w, o.kernel.w, o.dilation.w, o.padding.w);
  std::vector<std::string> inputs = {x.name, add_parameter(context, *layer.weight())};
  if (layer.bias()) inputs.push_back(add_parameter(context, *layer.bias()));
  const std::string convolved =
      context.graph.node("Conv", inputs,
                         {{"kernel_shape", Extents64{o.kernel.h, o.kernel.w}},
                          {"strides", Extents64{o.stride.h, o.stride.w}},
                          {"dilations", Extents64{o.dilation.h, o.dilation.w}},
                          {"pads", Extents64{top, left, bottom, right}},
                          {"group", o.groups}});
  return {add_activation(context, layer, o.activation, convolved), y};
}

OnnxValue add_dense(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const Dense&>(module);
  const Parameter& weight = *layer.weight();
  const Floats values = values_of(context, weight);
  const int64_t units = weight.shape()[0], features = weight.shape()[1];
  const std::string bias = layer.bias() ? add_parameter(context, *layer.bias()) : "";
  OnnxGraph& graph = context.graph;
  std::string y;
  if (x.shape.rank() == 2 || x.shape.rank() == 4) {
    Extents64 shape = {units, features};
    if (x.shape.rank() == 4) shape.insert(shape.end(), {1, 1});
    std::vector<std::string> inputs = {x.name, graph.constant(weight.name(), shape, values)};
    if (!bias.empty()) inputs.push_back(bias);
    y = x.shape.rank() == 4 ? graph.node("Conv", inputs, {{"kernel_shape", Extents64{1, 1}}})
                            : graph.node("Gemm", inputs, {{"transB", int64_t{1}}});
  } else {
    Floats turned(values.size());
    for (int64_t i = 0; i < units; ++i) {
      for (int64_t j = 0; j < features; ++j) turned[j * units + i] = values[i * features + j];
    }
    y = graph.node("MatMul",
                   {x.name, graph.constant(weight.name(), Extents64{features, units}, turned)});
    if (!bias.empty()) y = graph.node("Add", {y, bias});
  }
  return result_of(layer, x, add_activation(context, layer, layer.options().activation, y));
}

OnnxValue add_batch_norm(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const BatchNorm&>(module);
  const auto epsilon = static_cast<float>(layer.options().epsilon);
  std::string y;
  if (x.shape.rank() == 2 || x.shape.rank() == 4) {
    std::vector<std::string> inputs = {x.name};
    for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
      inputs.push_back(add_parameter(context, parameter_of(layer, name)));
    }
    y = context.graph.node("BatchNormalization", inputs, {{"epsilon", epsilon}});
  } else {  // the channels are last, not second
    Floats weight = values_of(context, parameter_of(layer, "weight"));
    Floats bias = values_of(context, parameter_of(layer, "bias"));
    const Floats mean = values_of(context, parameter_of(layer, "running_mean"));
    const Floats variance = values_of(context, parameter_of(layer, "running_var"));
    for (size_t c = 0; c < weight.size(); ++c) {
      weight[c] /= std::sqrt(variance[c] + epsilon);
      bias[c] -= mean[c] * weight[c];
    }
    const Extents64 shape = {std::ssize(weight)};
    const std::string& prefix = layer.path();
    const std::string scaled = context.graph.node(
        "Mul", {x.name, context.graph.constant(prefix + ".scale", shape, weight)});
    y = context.graph.node("Add", {scaled, context.graph.constant(prefix + ".shift", shape, bias)});
  }
  return result_of(layer, x, add_activation(context, layer, layer.options().activation, y));
}

OnnxValue add_layer_norm(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const LayerNorm&>(module);
  const bool image = x.shape.rank() == 4;
  const std::string last = image ? to_channels_last(context, x.name) : x.name;
  const std::string y = context.graph.node(
      "LayerNormalization",
      {last, add_parameter(context, parameter_of(layer, "weight")),
       add_parameter(context, parameter_of(layer, "bias"))},
      {{"axis", int64_t{-1}}, {"epsilon", static_cast<float>(layer.options().epsilon)}});
  return result_of(layer, x, image ? to_channels_first(context, y) : y);
}

// GroupNormalization came with operator set 18: an instance norm of each group does the same.
OnnxValue add_group_norm(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const GroupNorm&>(module);
  OnnxGraph& graph = context.graph;
  const int64_t groups = layer.options().groups, channels = layer.options().channels;
  const Extents64 shape = {groups};
  const Floats ones(static_cast<size_t>(groups), 1), zeros(static_cast<size_t>(groups), 0);
  const std::string grouped = graph.node("Reshape", {x.name, graph.integers({0, groups, -1})});
  const std::string normal =
      graph.node("InstanceNormalization",
                 {grouped, graph.constant(layer.path() + ".ones", shape, ones),
                  graph.constant(layer.path() + ".zeros", shape, zeros)},
                 {{"epsilon", static_cast<float>(layer.options().epsilon)}});
  Extents64 back = {0, channels}, beside = {channels};
  if (x.shape.rank() == 4) {
    back.insert(back.end(), {x.shape[1], x.shape[2]});
    beside.insert(beside.end(), {1, 1});
  }
  const auto value = [&](const char* name) {
    const Parameter& parameter = parameter_of(layer, name);
    return graph.constant(parameter.name(), beside, values_of(context, parameter));
  };
  const std::string restored = graph.node("Reshape", {normal, graph.integers(back)});
  const std::string scaled = graph.node("Mul", {restored, value("weight")});
  return result_of(layer, x, graph.node("Add", {scaled, value("bias")}));
}

OnnxValue add_embedding(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  const std::string table = add_parameter(context, parameter_of(layer, "weight"));
  return result_of(layer, x, context.graph.node("Gather", {table, x.name}));
}

// --- recurrent layers

struct RecurrentForm {
  const char* op;
  std::vector<int64_t> gates;  // ONNX's in the order of files
};
RecurrentForm form_of(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::lstm:
      return {"LSTM", {0, 3, 1, 2}};  // i o f c of i f g o
    case RecurrentKind::gru:
      return {"GRU", {1, 0, 2}};  // z r h of r z n
    case RecurrentKind::rnn_tanh:
    case RecurrentKind::rnn_relu:
      break;
  }
  return {"RNN", {0}};
}

// One layer's parameters of both directions, their blocks of rows in ONNX's order.
std::string add_gates(const OnnxContext& context, const Recurrent& layer, int64_t index,
                      const std::vector<const char*>& names) {
  const Recurrent::Options& o = layer.options();
  const RecurrentForm form = form_of(o.kind);
  const int64_t directions = o.bidirectional ? 2 : 1;
  Floats all;
  int64_t columns = 0;
  for (int64_t direction = 0; direction < directions; ++direction) {
    for (const char* name : names) {
      const Parameter& parameter =
          parameter_of(layer, fmt::format("{}_l{}{}", name, index, direction ? "_reverse" : ""));
      const Floats values = values_of(context, parameter);
      columns = parameter.shape().rank() == 2 ? parameter.shape()[1] : 0;
      const int64_t block = o.units * std::max<int64_t>(columns, 1);
      for (const int64_t gate : form.gates) {
        const auto begin = values.begin() + gate * block;
        all.insert(all.end(), begin, begin + block);
      }
    }
  }
  const auto rows = static_cast<int64_t>(names.size() * form.gates.size()) * o.units;
  Extents64 shape = {directions, rows};
  if (columns > 0) shape.push_back(columns);
  return context.graph.constant(fmt::format("{}.{}_l{}", layer.path(), names[0], index), shape,
                                all);
}

OnnxValue add_recurrent(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const Recurrent&>(module);
  const Recurrent::Options& o = layer.options();
  if (o.projection > 0) {
    refuse(layer, "ONNX's LSTM has no projection. Train without `projection` to export");
  }
  OnnxGraph& graph = context.graph;
  const RecurrentForm form = form_of(o.kind);
  const int64_t directions = o.bidirectional ? 2 : 1;
  std::vector<OnnxAttribute> attributes = {
      {"hidden_size", o.units},
      {"direction", std::string(o.bidirectional ? "bidirectional" : "forward")}};
  if (o.kind == RecurrentKind::gru) attributes.push_back({"linear_before_reset", int64_t{1}});
  if (o.kind == RecurrentKind::rnn_relu) {
    attributes.push_back({"activations", std::vector<std::string>(directions, "Relu")});
  }
  std::string sequence = o.batch_first ? transpose(context, x.name, {1, 0, 2}) : x.name;
  std::string last;
  for (int64_t index = 0; index < o.layers; ++index) {
    std::vector<std::string> inputs = {sequence, add_gates(context, layer, index, {"weight_ih"}),
                                       add_gates(context, layer, index, {"weight_hh"})};
    const bool lengths = context.lengths != nullptr;
    if (o.bias || lengths) {
      inputs.push_back(o.bias ? add_gates(context, layer, index, {"bias_ih", "bias_hh"}) : "");
    }
    if (lengths) inputs.push_back(context.lengths());
    const std::vector<std::string> results = graph.nodes(form.op, inputs, attributes, 2);
    // (T, directions, N, units)
    const std::string turned = transpose(context, results[0], {0, 2, 1, 3});
    sequence = graph.node("Reshape", {turned, graph.integers({0, 0, directions * o.units})});
    last = results[1];
  }
  if (o.return_sequences) {
    return result_of(layer, x, o.batch_first ? transpose(context, sequence, {1, 0, 2}) : sequence);
  }
  const std::string turned = transpose(context, last, {1, 0, 2});
  return result_of(layer, x,
                   graph.node("Reshape", {turned, graph.integers({0, directions * o.units})}));
}

// --- layers without weights

OnnxValue add_activation_layer(const OnnxContext& context, const Module& module,
                               const OnnxValue& x) {
  const auto& layer = dynamic_cast<const ActivationLayer&>(module);
  return {add_activation(context, layer, layer.activation(), x.name), x.shape};
}

OnnxValue add_softmax(const OnnxContext& context, const Module&, const OnnxValue& x) {
  const int64_t axis = x.shape.rank() == 4 ? 1 : -1;
  return {context.graph.node("Softmax", {x.name}, {{"axis", axis}}), x.shape};
}

OnnxValue add_nothing(const OnnxContext&, const Module&, const OnnxValue& x) {
  return x;
}

OnnxValue add_flatten(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  if (x.shape.rank() == 2) return x;
  return result_of(layer, x, context.graph.node("Flatten", {x.name}, {{"axis", int64_t{1}}}));
}

// --- containers

OnnxValue add_sequential(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  OnnxValue y = x;
  for (const Module::Child& child : layer.children()) {
    y = add_onnx_layer(context, *child.module, y);
  }
  return y;
}

OnnxValue add_residual(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const Residual&>(module);
  const OnnxValue body = add_onnx_layer(context, layer.body(), x);
  const OnnxValue shortcut =
      layer.projection() ? add_onnx_layer(context, *layer.projection(), x) : x;
  const std::string sum = context.graph.node("Add", {body.name, shortcut.name});
  return {add_activation(context, layer, layer.options().activation, sum), body.shape};
}

std::vector<OnnxValue> add_branches(const OnnxContext& context, const Module& layer,
                                    const OnnxValue& x) {
  std::vector<OnnxValue> parts;
  for (const Module::Child& child : layer.children()) {
    parts.push_back(add_onnx_layer(context, *child.module, x));
  }
  return parts;
}

OnnxValue add_concat(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  std::vector<std::string> names;
  for (const OnnxValue& part : add_branches(context, layer, x)) names.push_back(part.name);
  const int64_t axis = layer.output_shape(x.shape).rank() == 4 ? 1 : -1;
  return result_of(layer, x, context.graph.node("Concat", names, {{"axis", axis}}));
}

OnnxValue add_multiply(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  OnnxGraph& graph = context.graph;
  const auto beside = [&](const OnnxValue& value, const Shape& other) {
    if (value.shape.rank() == other.rank() || other.rank() != 4) return value.name;
    if (value.shape.rank() != 2) {
      refuse(layer, fmt::format("a branch of {} beside one of {} has no ONNX form here",
                                value.shape, other));
    }
    return graph.node("Unsqueeze", {value.name, graph.integers({2, 3})});
  };
  const std::vector<OnnxValue> parts = add_branches(context, layer, x);
  OnnxValue y = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::string left = beside(y, parts[i].shape), right = beside(parts[i], y.shape);
    const bool wider = parts[i].shape.rank() > y.shape.rank();
    y = {graph.node("Mul", {left, right}), wider ? parts[i].shape : y.shape};
  }
  return result_of(layer, x, y.name);
}

// --- the table

struct LayerForm {
  std::string_view type;
  OnnxValue (*add)(const OnnxContext&, const Module&, const OnnxValue&);
};

constexpr LayerForm forms[] = {
    {"conv2d", add_conv2d},
    {"dense", add_dense},
    {"max_pool2d", add_max_pool2d},
    {"avg_pool2d", add_avg_pool2d},
    {"adaptive_avg_pool2d", add_adaptive_avg_pool2d},
    {"global_avg_pool2d", add_global_avg_pool2d},
    {"global_max_pool2d", add_global_max_pool2d},
    {"blur_pool2d", add_blur_pool2d},
    {"batch_norm", add_batch_norm},
    {"layer_norm", add_layer_norm},
    {"group_norm", add_group_norm},
    {"dropout", add_nothing},
    {"drop_path", add_nothing},
    {"layer_scale", add_layer_scale},
    {"class_token", add_class_token},
    {"position_embedding", add_position_embedding},
    {"first_token", add_first_token},
    {"multi_head_attention", add_attention},
    {"flatten", add_flatten},
    {"embedding", add_embedding},
    {"simple_rnn", add_recurrent},
    {"lstm", add_recurrent},
    {"gru", add_recurrent},
    {"relu", add_activation_layer},
    {"leaky_relu", add_activation_layer},
    {"sigmoid", add_activation_layer},
    {"tanh", add_activation_layer},
    {"gelu", add_activation_layer},
    {"silu", add_activation_layer},
    {"softplus", add_activation_layer},
    {"relu6", add_activation_layer},
    {"hard_sigmoid", add_activation_layer},
    {"hard_swish", add_activation_layer},
    {"softmax", add_softmax},
    {"sequential", add_sequential},
    {"residual", add_residual},
    {"concat", add_concat},
    {"multiply", add_multiply},
};

}  // namespace
}  // namespace onnx_layers

OnnxValue add_onnx_layer(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  using onnx_layers::forms;
  const std::string type = layer.type();
  const auto* found = std::ranges::find(forms, type, &onnx_layers::LayerForm::type);
  if (found == std::end(forms)) {
    onnx_layers::refuse(layer, "this type of layer cannot be exported yet");
  }
  return found->add(context, layer, x);
}

std::vector<std::string> onnx_layer_types() {
  std::vector<std::string> types;
  for (const onnx_layers::LayerForm& form : onnx_layers::forms) types.emplace_back(form.type);
  return types;
}

}  // namespace whisker
