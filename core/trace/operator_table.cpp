// Shapes and ranges are such that finite differences cross no tie and no kink.
#include "core/trace/operator_table.h"

#include "core/ops/recurrent.h"
#include "core/tensor/philox.h"

#include <array>
#include <initializer_list>
#include <optional>

namespace whisker {
namespace {

constexpr TensorOptions f64{.dtype = DType::f64, .device = reference_device};
constexpr uint64_t constant_stream = stream_of("constants");

std::vector<double> spread_values(int64_t elements, double low, double high, uint64_t stream) {
  const auto count = static_cast<size_t>(elements);
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    // 0.37: off the middle of each cell, so that a range around 0 does not hit 0.
    values[i] = low + (high - low) * (static_cast<double>(i) + 0.37) / static_cast<double>(count);
  }
  PhiloxStream random(7, stream);
  for (size_t i = count; i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<uint32_t>(i))]);
  }
  return values;
}

int axis(Arguments& a, int usual) {
  return static_cast<int>(a.integer(usual, -2, 2));
}

Pair pair(Arguments& a, Pair usual, int64_t low, int64_t high) {
  const int64_t h = a.integer(usual.h, low, high);
  return {h, a.integer(usual.w, low, high)};
}

ActivationSpec activation_spec(Arguments& a, Activation usual) {
  return {.kind = static_cast<Activation>(a.choice(static_cast<int>(usual), activation_count)),
          .slope = static_cast<float>(a.real(0.25))};
}

/// One tensor of several results.
Tensor flat_concat(std::initializer_list<Tensor> results) {
  std::vector<Tensor> flat;
  for (const Tensor& result : results) flat.push_back(result.reshape({-1}));
  return concat(flat, 0);
}

template <Tensor (*op)(const Tensor&, const Tensor&)>
Tensor binary(Arguments& a) {
  const Tensor left = a.operand("a", a.shape({2, 3, 4}));
  const Tensor right = a.operand("b", a.shape({3, 1}), 0.5, 2);
  return op(left, right);
}

template <Tensor (*op)(const Tensor&, const Tensor&)>
Tensor comparison(Arguments& a) {
  const Tensor left = a.constant(a.shape({2, 3, 4}));
  return op(left, a.constant(a.shape({3, 1})));
}

template <Tensor (*op)(const Tensor&)>
Tensor unary(Arguments& a) {
  return op(a.operand("x", a.shape({4, 7}), -4, 4));
}

template <Tensor (*op)(const Tensor&)>
Tensor of_positive(Arguments& a) {
  return op(a.operand("x", a.shape({2, 3, 4}), 0.5, 2));
}

template <Tensor (*op)(const Tensor&, const Axes&, ReduceOptions)>
Tensor reduction(Arguments& a) {
  const Tensor x = a.operand("x", a.shape({3, 4, 5}));
  const Axes axes = a.axes({1});
  return op(x, axes, {.keep_axes = a.choice(0, 2) == 1});
}

template <Tensor (*op)(const Tensor&, int)>
Tensor along_axis(Arguments& a) {
  const Tensor x = a.operand("x", a.shape({3, 5}), -2, 2);
  return op(x, axis(a, -1));
}

PaddingMode padding_mode(Arguments& a) {
  return static_cast<PaddingMode>(a.choice(static_cast<int>(PaddingMode::number), 3));
}

Tensor convolution(Arguments& a, std::optional<Pool2dOptions> max_pool) {
  const Conv2dOptions options{.stride = pair(a, {2, 1}, 1, 2),
                              .padding = pair(a, 1, 0, 2),
                              .padding_mode = padding_mode(a),
                              .dilation = pair(a, 1, 1, 2),
                              .groups = a.integer(2, 1, 2),
                              .activation = activation_spec(a, Activation::tanh),
                              .max_pool = max_pool};
  const Tensor x = a.operand("x", a.shape({2, 6, 5, 4}));
  const Shape filters = a.shape({6, 3, 2, options.groups == 1 ? 4 : 2});
  const Tensor w = a.operand("w", filters);
  return conv2d(x, w, a.choice(1, 2) ? a.operand("b", {filters[0]}) : Tensor(), options);
}

Pool2dOptions pool2d_options(Arguments& a) {
  return {.kernel = pair(a, 3, 1, 3),
          .stride = pair(a, 2, 1, 2),
          .padding = pair(a, 1, 0, 1),
          .padding_mode = padding_mode(a),
          .ceil = a.choice(0, 2) == 1,
          .count_padding = a.choice(0, 2) == 1};
}

/// One layer of 3 hidden units, its initial h, both directions, lengths.
template <RecurrentKind kind>
Tensor recurrent_layer(Arguments& a) {
  const Shape shape = a.shape({3, 2, 2});
  const int64_t rows = 3 * RecurrentGeometry{.kind = kind}.gates();
  const Tensor x = a.operand("x", shape), h = a.operand("h", {2, shape[1], 3});
  std::vector<RecurrentParameters> cells;
  for (const char* suffix : {"", "_reverse"}) {
    const auto named = [&](const char* name, const Shape& extents) {
      return a.operand(fmt::format("{}{}", name, suffix).c_str(), extents);
    };
    cells.push_back({.w_ih = named("w_ih", {rows, shape[2]}),
                     .w_hh = named("w_hh", {rows, 3}),
                     .b_ih = named("b_ih", {rows}),
                     .b_hh = named("b_hh", {rows})});
  }
  const RecurrentResult result = recurrent(x, cells,
                                           {.kind = kind,
                                            .bidirectional = true,
                                            .initial = {.h = h},
                                            .lengths = a.index({shape[1]}, shape[0] + 1)});
  return flat_concat({result.y, result.last.h});
}

struct NormInput {
  Tensor x;
  BatchNormOperands norm;
};

/// In training, without running statistics.
NormInput norm_input(Arguments& a, const Shape& shape, Activation activation) {
  const Shape channels{shape[-1]};
  const Tensor x = a.operand("x", shape), gamma = a.operand("gamma", channels, 0.5, 2);
  return {
      .x = x,
      .norm = {.gamma = gamma,
               .beta = a.operand("beta", channels),
               .state = {},
               .options = {
                   .training = true, .epsilon = a.real(1e-5), .activation = {.kind = activation}}}};
}

// In the order of ops.h. Arguments are asked for in statements of their own: C++ does not order
// those of a call.
constexpr OperatorRow rows[] = {
    {"add", binary<add>},
    {"sub", binary<sub>},
    {"mul", binary<mul>},
    {"div", binary<div>},
    {"maximum", binary<maximum>},
    {"minimum", binary<minimum>},
    {"affine",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 3, 4}));
       const double scale = a.real(-1.5);
       return affine(x, scale, a.real(0.25));
     }},
    {"exp", unary<exp>},
    {"log", of_positive<log>},
    {"sqrt", of_positive<sqrt>},
    {"reciprocal", of_positive<reciprocal>},
    {"abs", unary<abs>},
    {"pow",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 3, 4}), 0.5, 2);
       return pow(x, a.real(2.5));
     }},
    {"clamp",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 3, 4}));
       const double low = a.real(-0.5);
       return clamp(x, low, a.real(0.6));
     }},
    {"equal", comparison<equal>},
    {"not_equal", comparison<not_equal>},
    {"less", comparison<less>},
    {"less_equal", comparison<less_equal>},
    {"greater", comparison<greater>},
    {"greater_equal", comparison<greater_equal>},
    {"where",
     [](Arguments& a) {
       const Shape shape = a.shape({2, 3});
       const Tensor condition = cast(a.index(shape, 2), DType::boolean);
       const Tensor left = a.operand("a", shape);
       return where(condition, left, a.operand("b", shape));
     }},
    {"cast",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 3, 4}));
       return cast(x, static_cast<DType>(a.choice(static_cast<int>(x.dtype()), 8)));
     }},
    {"activation",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({4, 7}), -4, 4);
       return activation(x, activation_spec(a, Activation::silu));
     }},
    {"relu", unary<relu>},
    {"leaky_relu",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({4, 7}), -4, 4);
       return leaky_relu(x, a.real(0.01));
     }},
    {"gelu", unary<gelu>},
    {"silu", unary<silu>},
    {"sigmoid", unary<sigmoid>},
    {"tanh", unary<tanh>},
    {"softplus", unary<softplus>},
    {"relu6", unary<relu6>},
    {"hard_sigmoid", unary<hard_sigmoid>},
    {"hard_swish", unary<hard_swish>},
    {"dropout",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({4, 7}), -4, 4);
       const RandomKey key{
           .seed = static_cast<uint64_t>(a.integer(3, 0, 9)), .stream = 5, .step = 2};
       return dropout(x, a.real(0.4), key);
     }},
    {"drop_path",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({6, 2, 3}), -4, 4);
       const RandomKey key{
           .seed = static_cast<uint64_t>(a.integer(3, 0, 9)), .stream = 5, .step = 2};
       return drop_path(x, a.real(0.4), key);
     }},
    {"sum", reduction<sum>},
    {"mean", reduction<mean>},
    {"max", reduction<max>},
    {"min", reduction<min>},
    {"var",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4, 5}));
       const Axes axes = a.axes({1});
       return var(x, axes, {}, static_cast<int>(a.integer(1, 0, 1)));
     }},
    {"argmax",
     [](Arguments& a) {
       const Tensor x = a.constant(a.shape({3, 4}));
       return argmax(x, axis(a, -1));
     }},
    {"sum_to",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4, 5}));
       return sum_to(x, a.shape({4, 1}));
     }},
    {"sum_products_to",
     [](Arguments& a) {
       const Tensor left = a.operand("a", a.shape({3, 4, 5}));
       const Tensor right = a.operand("b", a.shape({3, 4, 5}), 0.5, 2);
       return sum_products_to(left, right, a.shape({4, 1}));
     }},
    {"reshape",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4, 2}));
       return x.reshape({a.integer(6, 1, 6), -1});
     }},
    {"transpose",
     [](Arguments& a) {
       const Shape shape = a.shape({3, 4, 2});
       const Tensor x = a.operand("x", shape);
       std::vector<int> order;  // the last axis first
       for (int i = 0; i < shape.rank(); ++i) {
         order.push_back(axis(a, (i + shape.rank() - 1) % shape.rank()));
       }
       return transpose(x, order);
     }},
    {"broadcast_to",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 1}));
       return broadcast_to(x, a.shape({2, 3, 4}));
     }},
    {"concat",
     [](Arguments& a) {
       const Tensor left = a.operand("a", a.shape({2, 3})), right = a.operand("b", a.shape({2, 2}));
       return concat({left, right}, axis(a, 1));
     }},
    {"slice",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4, 2}));
       const int along = axis(a, 1);
       const int64_t begin = a.integer(1, 0, 1);
       return slice(x, along, begin, a.integer(3, 1, 3));
     }},
    {"split",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4, 2}));
       const int along = axis(a, 1);
       const std::array<int64_t, 2> sizes{a.integer(1, 0, 2), a.integer(3, 0, 3)};
       const std::vector<Tensor> parts = split(x, sizes, along);
       return flat_concat({parts[1], parts[0]});
     }},
    {"pad",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4, 2}));
       std::array<std::pair<int64_t, int64_t>, 3> amounts;
       for (auto& [before, after] : amounts) {
         before = a.integer(1, 0, 2);
         after = a.integer(0, 0, 2);
       }
       return pad(x, amounts, a.real(0.5));
     }},
    {"gather",
     [](Arguments& a) {
       const Shape shape = a.shape({2, 4});
       const int along = static_cast<int>(a.integer(1, 0, 1));
       const bool has_axis = along >= 0 && along < shape.rank();
       const Tensor x = a.operand("x", shape);
       return gather(x, along, a.index(shape, has_axis ? shape[along] : 1));
     }},
    {"embedding",
     [](Arguments& a) {
       const Shape shape = a.shape({5, 3});
       const Tensor table = a.operand("table", shape);
       return embedding(table, a.index(a.shape({2, 2}), shape.rank() > 0 ? shape[0] : 1));
     }},
    {"one_hot",
     [](Arguments& a) {
       const Tensor index = a.index(a.shape({2, 4}), 6);
       const int64_t classes = a.integer(6, 5, 7);
       return one_hot(index, classes,
                      static_cast<DType>(a.choice(static_cast<int>(DType::f32), 8)));
     }},
    {"matmul",
     [](Arguments& a) {
       const Tensor left = a.operand("a", a.shape({2, 3, 4}));
       return matmul(left, a.operand("b", a.shape({4, 5})));
     }},
    {"linear",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({3, 4}));
       const Shape shape = a.shape({5, 4});
       const Tensor w = a.operand("w", shape);
       const Tensor b = a.choice(1, 2) ? a.operand("b", {shape[0]}) : Tensor();
       return linear(x, w, b, activation_spec(a, Activation::tanh));
     }},
    {"conv2d", [](Arguments& a) { return convolution(a, {}); }},
    {"conv2d_max_pool2d",
     [](Arguments& a) {
       const Pair kernel = pair(a, 2, 1, 2);
       return convolution(a, Pool2dOptions{.kernel = kernel, .stride = pair(a, 1, 1, 2)});
     }},
    {"conv2d_with_sums",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 6, 5, 4}));
       const Tensor w = a.operand("w", a.shape({6, 3, 2, 4}));
       return conv2d_with_sums(x, w, {.stride = pair(a, 1, 1, 2), .padding = pair(a, 1, 0, 2)}).y;
     }},
    {"max_pool2d",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 6, 5, 3}));
       return max_pool2d(x, pool2d_options(a));
     }},
    {"avg_pool2d",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 6, 5, 3}));
       return avg_pool2d(x, pool2d_options(a));
     }},
    {"adaptive_avg_pool2d",
     [](Arguments& a) {
       const Tensor x = a.operand("x", a.shape({2, 6, 5, 3}));
       return adaptive_avg_pool2d(x, pair(a, {4, 3}, 1, 7));
     }},
    {"global_avg_pool2d",
     [](Arguments& a) {
       return global_avg_pool2d(a.operand("x", a.shape({2, 6, 5, 3})));
     }},
    {"recurrent", recurrent_layer<RecurrentKind::lstm>},
    {"recurrent_gru", recurrent_layer<RecurrentKind::gru>},
    {"recurrent_tanh", recurrent_layer<RecurrentKind::rnn_tanh>},
    {"batch_norm",
     [](Arguments& a) {
       const Shape shape = a.shape({3, 2, 2, 4});
       NormInput in = norm_input(a, shape, Activation::none);
       in.norm.options.training = a.choice(1, 2) == 1;
       in.norm.options.momentum = a.real(0.1);
       in.norm.options.activation = activation_spec(a, Activation::none);
       if (a.choice(1, 2) == 1) in.norm.residual = a.operand("residual", shape);
       BatchNormState& state = in.norm.state;
       for (Tensor* statistic :
            {&state.running_mean, &state.running_var, &state.pending_mean, &state.pending_var}) {
         *statistic = a.constant({shape[-1]}, 0.5, 2);
         const bool narrow = statistic->defined() && size_of(statistic->dtype()) == 2;
         if (narrow) *statistic = statistic->to(DType::f32);
       }
       return batch_norm(in.x, in.norm.gamma, in.norm.beta, state, in.norm.options,
                         in.norm.residual);
     }},
    {"add_batch_norms",
     [](Arguments& a) {
       const Shape shape = a.shape({3, 2, 2, 4}), channels{shape[-1]};
       const NormInput in = norm_input(a, shape, Activation::none);
       const Tensor added = a.operand("added", shape),
                    gamma = a.operand("added_gamma", channels, 0.5, 2);
       return add_batch_norms(in.x, in.norm, added,
                              {gamma, a.operand("added_beta", channels), {}, {.training = true}});
     }},
    {"batch_norm_max_pool2d",
     [](Arguments& a) {
       const NormInput in = norm_input(a, a.shape({2, 5, 4, 3}), Activation::none);
       return batch_norm_max_pool2d(
           in.x, in.norm,
           {.kernel = pair(a, 3, 2, 3), .stride = pair(a, 2, 1, 2), .padding = pair(a, 1, 0, 1)});
     }},
    {"batch_norm_excite",
     [](Arguments& a) {
       const NormInput in = norm_input(a, a.shape({2, 3, 3, 4}), Activation::silu);
       return batch_norm_excite(in.x, in.norm,
                                [](const Tensor& average) { return sigmoid(average); });
     }},
    {"batch_norm_conv2d",
     [](Arguments& a) {
       const NormInput in = norm_input(a, a.shape({2, 3, 3, 8}), Activation::relu);
       return batch_norm_conv2d(in.x, in.norm, a.operand("w", a.shape({16, 1, 1, 8}))).y;
     }},
    {"layer_norm",
     [](Arguments& a) {
       const Shape shape = a.shape({3, 6}), features{shape[-1]};
       const Tensor x = a.operand("x", shape), gamma = a.operand("gamma", features, 0.5, 2);
       const Tensor beta = a.operand("beta", features);
       return layer_norm(x, gamma, beta, a.real(1e-5));
     }},
    {"group_norm",
     [](Arguments& a) {
       const Shape shape = a.shape({2, 3, 2, 6}), channels{shape[-1]};
       const Tensor x = a.operand("x", shape), gamma = a.operand("gamma", channels, 0.5, 2);
       const Tensor beta = a.operand("beta", channels);
       const int64_t groups = a.integer(3, 1, 3);
       return group_norm(x, gamma, beta, {.groups = groups, .epsilon = a.real(1e-5)});
     }},
    {"attention",
     [](Arguments& a) {
       const Shape shape = a.shape({2, 5, 18});
       const Tensor qkv = a.operand("qkv", shape, -2, 2);
       const int64_t heads = a.integer(2, 1, 3);
       const AttentionOptions options{.heads = heads,
                                      .dropout = a.choice(1, 2) == 1 ? a.real(0.3) : 0};
       const int64_t tokens = shape.rank() > 1 ? shape[1] : 1;
       const Shape scores{1, options.heads, tokens, tokens};
       return attention(qkv, a.choice(1, 2) == 1 ? a.constant(scores) : Tensor(), options);
     }},
    {"softmax", along_axis<softmax>},
    {"log_softmax", along_axis<log_softmax>},
    {"cross_entropy",
     [](Arguments& a) {
       const Shape shape = a.shape({4, 3});
       const Tensor logits = a.operand("logits", shape, -2, 2);
       const bool probabilities = a.choice(0, 2) == 1;
       const Tensor target =
           probabilities ? a.constant(shape, 0, 1) : a.index({shape[0]}, shape[-1]);
       const double smoothing = a.real(0.1);
       return cross_entropy(
           logits, target,
           {.label_smoothing = smoothing,
            .class_weight = a.choice(0, 2) == 1 ? a.constant({shape[-1]}, 0.5, 2) : Tensor()});
     }},
    {"binary_cross_entropy_with_logits",
     [](Arguments& a) {
       const Shape shape = a.shape({4, 1});
       const Tensor logits = a.operand("logits", shape, -2, 2);
       return binary_cross_entropy_with_logits(logits, a.constant(shape, 0, 1));
     }},
    {"mse_loss",
     [](Arguments& a) {
       const Shape shape = a.shape({3, 2});
       const Tensor prediction = a.operand("prediction", shape);
       return mse_loss(prediction, a.operand("target", shape));
     }},
};

}  // namespace

Tensor Arguments::operand(const char* name, const Shape& shape, double low, double high) {
  if (next_operand_ == operands_.size()) {
    const uint64_t stream = seed_ + operands_.size();
    operands_.push_back(
        {name, from_vector(spread_values(shape.count(), low, high, stream), shape, f64)});
  }
  return operands_[next_operand_++].tensor;
}

Tensor Arguments::constant(const Shape& shape, double low, double high) {
  const uint64_t stream = seed_ + constant_stream + next_constant_++;
  return from_vector(spread_values(shape.count(), low, high, stream), shape, f64);
}

Tensor Arguments::index(const Shape& shape, int64_t extent) {
  PhiloxStream random(7, seed_ + constant_stream + next_constant_++);
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (double& value : values) value = random.below(static_cast<uint32_t>(extent));
  return from_vector(values, shape, {.dtype = DType::i64, .device = reference_device});
}

std::span<const OperatorRow> operator_table() {
  return rows;
}

}  // namespace whisker
