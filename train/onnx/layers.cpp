// Images stand as (N,C,H,W) in the graph, sequences as (T,N,F), everything else as here.
#include "train/onnx/layers.h"

#include "core/autograd/autograd.h"
#include "core/error.h"
#include "core/ops/ops.h"
#include "layers/layers.h"
#include "layers/weights/weights.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string_view>

namespace whisker {
namespace {

using Floats = std::vector<float>;
using Extents64 = std::vector<int64_t>;

[[noreturn]] void refuse(const Module& layer, std::string_view why) {
  fail(ErrorKind::usage, "export: layer '{}' ({}): {}", layer.path(), layer.type(), why);
}

// --- parameters

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

// --- nodes that several layers share

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

// --- transformers: tokens are an image of one row

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

// A row of a pooling matrix: the mean over [begin, end) of those that count, `count`.
void add_mean_row(Floats& matrix, int64_t extent, int64_t begin, int64_t end, int64_t count) {
  Floats row(static_cast<size_t>(extent), 0);
  for (int64_t i = std::max<int64_t>(begin, 0); i < std::min(end, extent); ++i) {
    row[static_cast<size_t>(i)] = 1.0f / static_cast<float>(count);
  }
  matrix.insert(matrix.end(), row.begin(), row.end());
}

// Means over windows of rows and of columns: rows (h_out, h) x columns' transpose (w, w_out).
std::string add_means(const OnnxContext& context, const Module& layer, const OnnxValue& x,
                      const Floats& rows, const Floats& columns) {
  OnnxGraph& graph = context.graph;
  const int64_t h = x.shape[1], w = x.shape[2];
  const int64_t h_out = std::ssize(rows) / h, w_out = std::ssize(columns) / w;
  Floats turned(columns.size());
  for (int64_t i = 0; i < w_out; ++i) {
    for (int64_t j = 0; j < w; ++j) turned[j * w_out + i] = columns[i * w + j];
  }
  const std::string high = graph.node(
      "MatMul", {graph.constant(layer.path() + ".rows", Extents64{h_out, h}, rows), x.name});
  return graph.node("MatMul",
                    {high, graph.constant(layer.path() + ".columns", Extents64{w, w_out}, turned)});
}

std::vector<OnnxAttribute> windows_of(const Pool2dGeometry& g) {
  return {{"kernel_shape", Extents64{g.kernel_h, g.kernel_w}},
          {"strides", Extents64{g.stride_h, g.stride_w}},
          {"pads", Extents64{g.pad_top, g.pad_left,
                             end_padding(g.h, g.h_out, g.stride_h, g.kernel_h, g.pad_top),
                             end_padding(g.w, g.w_out, g.stride_w, g.kernel_w, g.pad_left)}}};
}

OnnxValue add_max_pool2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const MaxPool2D&>(module);
  const Pool2dGeometry g = pool2d_geometry(PoolKind::max, x.shape, layer.options());
  return result_of(layer, x, context.graph.node("MaxPool", {x.name}, windows_of(g)));
}

OnnxValue add_avg_pool2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const AvgPool2D&>(module);
  const Pool2dGeometry g = pool2d_geometry(PoolKind::average, x.shape, layer.options());
  const bool counts = g.counted_top + g.counted_bottom + g.counted_left + g.counted_right > 0;
  if (!counts) {
    return result_of(layer, x, context.graph.node("AveragePool", {x.name}, windows_of(g)));
  }
  Floats rows, columns;
  for (int64_t i = 0; i < g.h_out; ++i) {
    const int64_t begin = i * g.stride_h - g.pad_top, end = begin + g.kernel_h;
    add_mean_row(rows, g.h, begin, end,
                 std::min(end, g.h + g.counted_bottom) - std::max(begin, -g.counted_top));
  }
  for (int64_t i = 0; i < g.w_out; ++i) {
    const int64_t begin = i * g.stride_w - g.pad_left, end = begin + g.kernel_w;
    add_mean_row(columns, g.w, begin, end,
                 std::min(end, g.w + g.counted_right) - std::max(begin, -g.counted_left));
  }
  return result_of(layer, x, add_means(context, layer, x, rows, columns));
}

// A binomial filter over the image reflected at its edges.
OnnxValue add_blur_pool2d(const OnnxContext& context, const Module& module, const OnnxValue& x) {
  const auto& layer = dynamic_cast<const BlurPool2D&>(module);
  const auto [kernel, stride] = layer.options();
  Floats row = {1};
  for (int64_t i = 1; i < kernel; ++i) {
    row.push_back(0);
    for (size_t at = row.size() - 1; at > 0; --at) row[at] = (row[at] + row[at - 1]) / 2;
    row[0] /= 2;
  }
  const int64_t channels = x.shape[3], before = (kernel - 1) / 2, behind = kernel / 2;
  Floats filters;
  for (int64_t c = 0; c < channels; ++c) {
    for (const float down : row) {
      for (const float across : row) filters.push_back(down * across);
    }
  }
  OnnxGraph& graph = context.graph;
  const std::string padded =
      graph.node("Pad", {x.name, graph.integers({0, 0, before, before, 0, 0, behind, behind})},
                 {{"mode", std::string("reflect")}});
  const std::string weight =
      graph.constant(layer.path() + ".filters", Extents64{channels, 1, kernel, kernel}, filters);
  return result_of(layer, x,
                   graph.node("Conv", {padded, weight},
                              {{"kernel_shape", Extents64{kernel, kernel}},
                               {"strides", Extents64{stride, stride}},
                               {"group", channels}}));
}

OnnxValue add_adaptive_avg_pool2d(const OnnxContext& context, const Module& layer,
                                  const OnnxValue& x) {
  const Shape y = layer.output_shape(x.shape);
  const int64_t h = x.shape[1], w = x.shape[2], h_out = y[1], w_out = y[2];
  if (h == h_out && w == w_out) return x;
  if (h % h_out == 0 && w % w_out == 0) {
    const Extents64 window = {h / h_out, w / w_out};
    return {context.graph.node("AveragePool", {x.name},
                               {{"kernel_shape", window}, {"strides", window}}),
            y};
  }
  const auto means = [](int64_t extent, int64_t out) {
    Floats matrix;
    for (int64_t i = 0; i < out; ++i) {
      const int64_t begin = i * extent / out, end = ((i + 1) * extent + out - 1) / out;
      add_mean_row(matrix, extent, begin, end, end - begin);
    }
    return matrix;
  };
  return {add_means(context, layer, x, means(h, h_out), means(w, w_out)), y};
}

template <bool max>
OnnxValue add_global_pool2d(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  const std::string pooled =
      context.graph.node(max ? "GlobalMaxPool" : "GlobalAveragePool", {x.name});
  return result_of(layer, x, context.graph.node("Flatten", {pooled}, {{"axis", int64_t{1}}}));
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
    {"global_avg_pool2d", add_global_pool2d<false>},
    {"global_max_pool2d", add_global_pool2d<true>},
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

OnnxValue add_onnx_layer(const OnnxContext& context, const Module& layer, const OnnxValue& x) {
  const std::string type = layer.type();
  const auto* found = std::ranges::find(forms, type, &LayerForm::type);
  if (found == std::end(forms)) {
    refuse(layer, "this type of layer cannot be exported yet");
  }
  return found->add(context, layer, x);
}

std::vector<std::string> onnx_layer_types() {
  std::vector<std::string> types;
  for (const LayerForm& form : forms) types.emplace_back(form.type);
  return types;
}

}  // namespace whisker
