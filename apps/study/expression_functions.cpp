// One row per function, with the options of ops.h by their own names.
#include "apps/study/expression_functions.h"

#include "core/autograd/observer.h"
#include "core/tensor/philox.h"

namespace whisker {
namespace {

template <Tensor (*op)(const Tensor&)>
Tensor call_unary(ExpressionCall& c) {
  return op(c.tensor("x"));
}
// `op` reads further arguments, behind x.
template <auto op>
Tensor call_of_x(ExpressionCall& c) {
  return op(c, c.tensor("x"));
}
template <Tensor (*op)(const Tensor&, const Tensor&)>
Tensor call_binary(ExpressionCall& c) {
  const Tensor a = c.tensor("a");
  return op(a, c.tensor("b"));
}
Axes call_axes(ExpressionCall& c) {
  Axes axes;
  if (c.has("axes")) {
    for (const int64_t axis : c.integers("axes", -8, 8)) axes.push_back(static_cast<int>(axis));
  }
  return axes;
}
template <Tensor (*op)(const Tensor&, const Axes&, ReduceOptions)>
Tensor call_reduction(ExpressionCall& c) {
  const Tensor x = c.tensor("x");
  const Axes axes = call_axes(c);
  return op(x, axes, {.keep_axes = c.integer("keep_axes", 0, 1, 0) == 1});
}
template <Tensor (*op)(const Tensor&, int)>
Tensor call_along(ExpressionCall& c) {
  const Tensor x = c.tensor("x");
  return op(x, static_cast<int>(c.integer("axis", -8, 8, -1)));
}
template <DType dtype>
Tensor call_cast(ExpressionCall& c) {
  return cast(c.tensor("x"), dtype);
}

Tensor call_linear(ExpressionCall& c) {
  const Tensor x = c.tensor("x"), w = c.tensor("w");
  const Tensor b = c.has("b") ? c.tensor("b") : Tensor();
  return linear(x, w, b, c.activation("activation"));
}

Pool2dOptions call_pooling(ExpressionCall& c) {
  const Pair kernel = c.pair("kernel", 1, 2);
  const Pair stride = c.pair("stride", 1, kernel);
  return {.kernel = kernel, .stride = stride, .padding = c.pair("padding", 0, 0)};
}

Tensor call_conv2d(ExpressionCall& c) {
  const Tensor x = c.tensor("x"), w = c.tensor("w");
  const Tensor b = c.has("b") ? c.tensor("b") : Tensor();
  Conv2dOptions options{.stride = c.pair("stride", 1, 1), .padding = c.pair("padding", 0, 0)};
  options.dilation = c.pair("dilation", 1, 1);
  options.groups = c.integer("groups", 1, 1 << 20, 1);
  options.activation = c.activation("activation");
  if (c.has("max_pool")) options.max_pool = Pool2dOptions{.kernel = c.pair("max_pool", 1, 2)};
  return conv2d(x, w, b, options);
}

Tensor call_batch_norm(ExpressionCall& c) {
  const Tensor x = c.tensor("x"), gamma = c.tensor("gamma"), beta = c.tensor("beta");
  const Tensor residual = c.has("residual") ? c.tensor("residual") : Tensor();
  const double epsilon = c.number("epsilon", 1e-5);
  return batch_norm(
      x, gamma, beta, {},
      {.training = true, .epsilon = epsilon, .activation = c.activation("activation")}, residual);
}

Tensor call_group_norm(ExpressionCall& c) {
  const Tensor x = c.tensor("x"), gamma = c.tensor("gamma"), beta = c.tensor("beta");
  const int64_t groups = c.integer("groups", 1, 1 << 20, 1);
  return group_norm(x, gamma, beta, {.groups = groups, .epsilon = c.number("epsilon", 1e-5)});
}

Tensor call_transpose(ExpressionCall& c) {
  const Tensor x = c.tensor("x");
  std::vector<int> order;
  if (c.has("order")) {
    for (const int64_t axis : c.integers("order", -8, 8)) order.push_back(static_cast<int>(axis));
  } else {  // the last two axes
    for (int i = 0; i < x.rank(); ++i) order.push_back(i);
    if (x.rank() > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  }
  return transpose(x, order);
}

Tensor call_random(ExpressionCall& c, bool normal) {
  const Shape shape = c.shape("shape");
  const uint64_t stream = stream_of("study.expression");
  return normal ? rand_normal(shape, 0, 1, c.seed(), stream, c.options())
                : rand_uniform(shape, 0, 1, c.seed(), stream, c.options());
}

struct FunctionRow {
  std::string_view name;
  ExpressionFunction call;
};
constexpr FunctionRow functions[] = {
    {"add", call_binary<add>},
    {"sub", call_binary<sub>},
    {"mul", call_binary<mul>},
    {"div", call_binary<div>},
    {"maximum", call_binary<maximum>},
    {"minimum", call_binary<minimum>},
    {"affine", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       const double scale = c.number("scale");
       return affine(x, scale, c.number("shift"));
     }>},
    {"exp", call_unary<exp>},
    {"log", call_unary<log>},
    {"sqrt", call_unary<sqrt>},
    {"reciprocal", call_unary<reciprocal>},
    {"abs", call_unary<abs>},
    {"pow",
     call_of_x<[](ExpressionCall& c, const Tensor& x) { return pow(x, c.number("exponent")); }>},
    {"clamp", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       const double low = c.number("low");
       return clamp(x, low, c.number("high"));
     }>},
    {"equal", call_binary<equal>},
    {"not_equal", call_binary<not_equal>},
    {"less", call_binary<less>},
    {"less_equal", call_binary<less_equal>},
    {"greater", call_binary<greater>},
    {"greater_equal", call_binary<greater_equal>},
    {"where",
     [](ExpressionCall& c) {
       const Tensor condition = c.tensor("condition"), a = c.tensor("a");
       return where(condition, a, c.tensor("b"));
     }},
    {"relu", call_unary<relu>},
    {"leaky_relu", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       return leaky_relu(x, c.number("slope", 0.01));
     }>},
    {"gelu", call_unary<gelu>},
    {"silu", call_unary<silu>},
    {"sigmoid", call_unary<sigmoid>},
    {"tanh", call_unary<tanh>},
    {"softplus", call_unary<softplus>},
    {"relu6", call_unary<relu6>},
    {"hard_sigmoid", call_unary<hard_sigmoid>},
    {"hard_swish", call_unary<hard_swish>},
    {"dropout", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       const double rate = c.number("rate");
       return dropout(x, rate, {.seed = c.seed(), .stream = stream_of("study.dropout")});
     }>},
    {"sum", call_reduction<sum>},
    {"mean", call_reduction<mean>},
    {"max", call_reduction<max>},
    {"min", call_reduction<min>},
    {"var", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       const Axes axes = call_axes(c);
       return var(x, axes, {}, static_cast<int>(c.integer("correction", 0, 1, 1)));
     }>},
    {"reshape",
     call_of_x<[](ExpressionCall& c, const Tensor& x) { return reshape(x, c.shape("shape")); }>},
    {"transpose", call_transpose},
    {"broadcast_to", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       return broadcast_to(x, c.shape("shape"));
     }>},
    {"concat",
     [](ExpressionCall& c) {
       const std::vector<Tensor> parts = c.tensors("tensors");
       return concat(parts, static_cast<int>(c.integer("axis", -8, 8)));
     }},
    {"slice", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       const auto axis = static_cast<int>(c.integer("axis", -8, 8));
       const int64_t begin = c.integer("begin", 0, most_expression_elements);
       return slice(x, axis, begin, c.integer("end", 0, most_expression_elements));
     }>},
    {"gather", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       const auto axis = static_cast<int>(c.integer("axis", -8, 8));
       return gather(x, axis, c.tensor("index"));
     }>},
    {"embedding",
     [](ExpressionCall& c) {
       const Tensor table = c.tensor("table");
       return embedding(table, c.tensor("index"));
     }},
    {"one_hot",
     [](ExpressionCall& c) {
       const Tensor index = c.tensor("index");
       return one_hot(index, c.integer("classes", 1, most_expression_elements), c.options().dtype);
     }},
    {"matmul", call_binary<matmul>},
    {"linear", call_linear},
    {"conv2d", call_conv2d},
    {"max_pool2d",
     call_of_x<[](ExpressionCall& c, const Tensor& x) { return max_pool2d(x, call_pooling(c)); }>},
    {"avg_pool2d",
     call_of_x<[](ExpressionCall& c, const Tensor& x) { return avg_pool2d(x, call_pooling(c)); }>},
    {"adaptive_avg_pool2d", call_of_x<[](ExpressionCall& c, const Tensor& x) {
       return adaptive_avg_pool2d(x, c.pair("output", 1, 1));
     }>},
    {"global_avg_pool2d", call_unary<global_avg_pool2d>},
    {"batch_norm", call_batch_norm},
    {"layer_norm",
     [](ExpressionCall& c) {
       const Tensor x = c.tensor("x"), gamma = c.tensor("gamma"), beta = c.tensor("beta");
       return layer_norm(x, gamma, beta, c.number("epsilon", 1e-5));
     }},
    {"group_norm", call_group_norm},
    {"attention",
     [](ExpressionCall& c) {
       const Tensor qkv = c.tensor("qkv");
       return attention(qkv, {}, {.heads = c.integer("heads", 1, 1 << 20, 1)});
     }},
    {"softmax", call_along<softmax>},
    {"log_softmax", call_along<log_softmax>},
    {"cross_entropy",
     [](ExpressionCall& c) {
       const Tensor logits = c.tensor("logits"), target = c.tensor("target");
       return cross_entropy(
           logits, target,
           {.label_smoothing = c.number("label_smoothing", 0),
            .class_weight = c.has("class_weight") ? c.tensor("class_weight") : Tensor()});
     }},
    {"binary_cross_entropy_with_logits",
     [](ExpressionCall& c) {
       const Tensor logits = c.tensor("logits");
       return binary_cross_entropy_with_logits(logits, c.tensor("target"));
     }},
    {"mse_loss",
     [](ExpressionCall& c) {
       const Tensor prediction = c.tensor("prediction");
       return mse_loss(prediction, c.tensor("target"));
     }},
    {"detach",
     [](ExpressionCall& c) {
       const Tensor x = c.tensor("x"), y = x.detach();
       const Tensor* const inputs[] = {&x};
       const Tensor* const outputs[] = {&y};
       if (grad_mode.observer) grad_mode.observer->on_unrecorded("detach", inputs, outputs);
       return y;
     }},
    {"f32", call_cast<DType::f32>},
    {"f64", call_cast<DType::f64>},
    {"bf16", call_cast<DType::bf16>},
    {"f16", call_cast<DType::f16>},
    {"i64", call_cast<DType::i64>},
    {"bool", call_cast<DType::boolean>},
    {"randn", [](ExpressionCall& c) { return call_random(c, true); }},
    {"rand", [](ExpressionCall& c) { return call_random(c, false); }},
    {"zeros", [](ExpressionCall& c) { return zeros(c.shape("shape"), c.options()); }},
    {"ones", [](ExpressionCall& c) { return ones(c.shape("shape"), c.options()); }},
};

}  // namespace

ExpressionFunction find_expression_function(std::string_view name) {
  for (const FunctionRow& row : functions) {
    if (row.name == name) return row.call;
  }
  return nullptr;
}

std::vector<std::string> expression_function_names() {
  std::vector<std::string> names;
  for (const FunctionRow& row : functions) names.emplace_back(row.name);
  return names;
}

}  // namespace whisker
