// One row per operator. Integer and mask operands are made inside the row's function.
#include "apps/gradcheck_operators.h"

#include "core/ops.h"
#include "core/philox.h"

namespace whisker {
namespace {

using Operands = std::span<const Tensor>;
constexpr TensorOptions f64{.dtype = DType::f64, .device = reference_device};
constexpr TensorOptions i64{.dtype = DType::i64, .device = reference_device};

Tensor indices(std::initializer_list<double> values, const Shape& shape) {
  return from_vector(values, shape, i64);
}

std::vector<GradcheckOperator> arithmetic() {
  const OperandSpec x{"x", {2, 3, 4}};
  const OperandSpec positive{"x", {2, 3, 4}, 0.5, 2};
  return {
      {"add", {{"a", {2, 3, 4}}, {"b", {3, 1}}}, [](Operands o) { return add(o[0], o[1]); }},
      {"sub", {{"a", {2, 3, 4}}, {"b", {4}}}, [](Operands o) { return sub(o[0], o[1]); }},
      {"mul", {{"a", {2, 1, 4}}, {"b", {3, 1}}}, [](Operands o) { return mul(o[0], o[1]); }},
      {"div", {{"a", {2, 3}}, {"b", {2, 3}, 0.5, 2}}, [](Operands o) { return div(o[0], o[1]); }},
      {"maximum",
       {{"a", {3, 4}}, {"b", {3, 4}, -0.9, 1.1}},
       [](Operands o) { return maximum(o[0], o[1]); }},
      {"minimum",
       {{"a", {3, 4}}, {"b", {3, 4}, -0.9, 1.1}},
       [](Operands o) { return minimum(o[0], o[1]); }},
      {"affine", {x}, [](Operands o) { return affine(o[0], -1.5, 0.25); }},
      {"exp", {x}, [](Operands o) { return exp(o[0]); }},
      {"log", {positive}, [](Operands o) { return log(o[0]); }},
      {"sqrt", {positive}, [](Operands o) { return sqrt(o[0]); }},
      {"reciprocal", {positive}, [](Operands o) { return reciprocal(o[0]); }},
      {"abs", {x}, [](Operands o) { return abs(o[0]); }},
      {"pow", {positive}, [](Operands o) { return pow(o[0], 2.5); }},
      {"clamp", {x}, [](Operands o) { return clamp(o[0], -0.5, 0.6); }},
      {"where",
       {{"a", {2, 3}}, {"b", {2, 3}}},
       [](Operands o) {
         const Tensor mask = greater(from_vector({1, 0, 0, 1, 1, 0}, {2, 3}, f64), zeros({}, f64));
         return where(mask, o[0], o[1]);
       }},
  };
}

std::vector<GradcheckOperator> activations() {
  const std::vector<OperandSpec> x{{"x", {4, 7}, -4, 4}};
  return {
      {"relu", x, [](Operands o) { return relu(o[0]); }},
      {"leaky_relu", x, [](Operands o) { return leaky_relu(o[0]); }},
      {"gelu", x, [](Operands o) { return gelu(o[0]); }},
      {"silu", x, [](Operands o) { return silu(o[0]); }},
      {"sigmoid", x, [](Operands o) { return sigmoid(o[0]); }},
      {"tanh", x, [](Operands o) { return tanh(o[0]); }},
      {"softplus", x, [](Operands o) { return softplus(o[0]); }},
      {"dropout", x, [](Operands o) { return dropout(o[0], 0.4, {.seed = 3, .stream = 5}); }},
  };
}

std::vector<GradcheckOperator> reductions() {
  const std::vector<OperandSpec> x{{"x", {3, 4, 5}}};
  return {
      {"sum", x, [](Operands o) { return sum(o[0], {1}); }},
      {"mean", x,
       [](Operands o) {
         return mean(o[0], {0, 2});
       }},
      {"max", x, [](Operands o) { return max(o[0], {2}); }},
      {"min", x, [](Operands o) { return min(o[0], {0}); }},
      {"var", x, [](Operands o) { return var(o[0], {1}); }},
      {"sum_to", x,
       [](Operands o) {
         return sum_to(o[0], {4, 1});
       }},
  };
}

std::vector<GradcheckOperator> movements() {
  const std::vector<OperandSpec> x{{"x", {3, 4, 2}}};
  return {
      {"reshape", x,
       [](Operands o) {
         return reshape(o[0], {6, 4});
       }},
      {"transpose", x,
       [](Operands o) {
         return transpose(o[0], {2, 0, 1});
       }},
      {"broadcast_to",
       {{"x", {3, 1}}},
       [](Operands o) {
         return broadcast_to(o[0], {2, 3, 4});
       }},
      {"concat",
       {{"a", {2, 3}}, {"b", {2, 2}}},
       [](Operands o) {
         return concat({o[0], o[1]}, 1);
       }},
      {"slice", x, [](Operands o) { return slice(o[0], 1, 1, 3); }},
      {"split", x,
       [](Operands o) {
         const std::vector<int64_t> sizes = {1, 3};
         const std::vector<Tensor> parts = split(o[0], sizes, 1);
         return mul(parts[0], parts[1]);
       }},
      {"pad", x,
       [](Operands o) {
         const std::vector<std::pair<int64_t, int64_t>> amounts = {{0, 1}, {2, 0}, {1, 1}};
         return pad(o[0], amounts, 0.5);
       }},
      {"gather",
       {{"x", {2, 4}}},
       [](Operands o) {
         return gather(o[0], 1, indices({3, 0, 3, 1, 1, 2}, {2, 3}));
       }},
      {"embedding",
       {{"table", {5, 3}}},
       [](Operands o) {
         return embedding(o[0], indices({4, 0, 4, 2}, {2, 2}));
       }},
  };
}

std::vector<GradcheckOperator> products() {
  const ActivationSpec tanh_spec{Activation::tanh};
  return {
      {"matmul", {{"a", {2, 3, 4}}, {"b", {4, 5}}}, [](Operands o) { return matmul(o[0], o[1]); }},
      {"linear",
       {{"x", {3, 4}}, {"w", {5, 4}}, {"b", {5}}},
       [=](Operands o) { return linear(o[0], o[1], o[2], tanh_spec); }},
      {"conv2d",
       {{"x", {2, 6, 5, 4}}, {"w", {6, 3, 2, 2}}, {"b", {6}}},
       [=](Operands o) {
         return conv2d(o[0], o[1], o[2],
                       {.stride = {2, 1}, .padding = {1, 1}, .groups = 2, .activation = tanh_spec});
       }},
      {"conv2d_max_pool2d",
       {{"x", {2, 6, 5, 3}}, {"w", {4, 3, 2, 3}}, {"b", {4}}},
       [=](Operands o) {
         return conv2d(o[0], o[1], o[2],
                       {.activation = tanh_spec, .max_pool = Pool2dOptions{.kernel = 2}});
       }},
  };
}

std::vector<GradcheckOperator> pools() {
  const std::vector<OperandSpec> x{{"x", {2, 6, 5, 3}}};
  return {
      {"max_pool2d", x,
       [](Operands o) { return max_pool2d(o[0], {.kernel = 3, .stride = {2}, .padding = 1}); }},
      {"avg_pool2d", x,
       [](Operands o) { return avg_pool2d(o[0], {.kernel = 2, .stride = {1}, .ceil = true}); }},
      {"adaptive_avg_pool2d", x,
       [](Operands o) {
         return adaptive_avg_pool2d(o[0], {4, 3});
       }},
      {"global_avg_pool2d", x, [](Operands o) { return global_avg_pool2d(o[0]); }},
  };
}

// Two directions over sequences of 3 and 2 steps: y and the last states.
GradcheckOperator recurrent_row(const char* name, RecurrentKind kind) {
  const int64_t rows = 3 * RecurrentGeometry{.kind = kind}.gates();  // 3 hidden units
  std::vector<OperandSpec> operands = {{"x", {3, 2, 2}}, {"h", {2, 2, 3}}};
  for (const char* suffix : {"", "_reverse"}) {
    operands.push_back({fmt::format("w_ih{}", suffix), {rows, 2}});
    operands.push_back({fmt::format("w_hh{}", suffix), {rows, 3}});
    operands.push_back({fmt::format("b_ih{}", suffix), {rows}});
    operands.push_back({fmt::format("b_hh{}", suffix), {rows}});
  }
  return {name, operands, [kind](Operands o) {
            const std::vector<RecurrentParameters> cells = {{o[2], o[3], o[4], o[5]},
                                                            {o[6], o[7], o[8], o[9]}};
            const RecurrentResult result = recurrent(o[0], cells,
                                                     {.kind = kind,
                                                      .bidirectional = true,
                                                      .initial = {.h = o[1]},
                                                      .lengths = indices({3, 2}, {2})});
            return concat({reshape(result.y, {36}), reshape(result.last.h, {12})}, 0);
          }};
}

std::vector<GradcheckOperator> recurrent_layers() {
  return {recurrent_row("recurrent", RecurrentKind::lstm),
          recurrent_row("recurrent_gru", RecurrentKind::gru),
          recurrent_row("recurrent_tanh", RecurrentKind::rnn_tanh)};
}

std::vector<GradcheckOperator> norms() {
  return {
      {"batch_norm",
       {{"x", {3, 2, 2, 4}}, {"gamma", {4}, 0.5, 2}, {"beta", {4}}, {"residual", {3, 2, 2, 4}}},
       [](Operands o) {
         const BatchNormState state{zeros({4}, f64), ones({4}, f64), zeros({4}, f64),
                                    zeros({4}, f64)};
         return batch_norm(o[0], o[1], o[2], state, {.training = true}, o[3]);
       }},
      {"batch_norm_pair",
       {{"x", {3, 2, 2, 4}},
        {"gamma", {4}, 0.5, 2},
        {"beta", {4}},
        {"added", {3, 2, 2, 4}},
        {"added_gamma", {4}, 0.5, 2},
        {"added_beta", {4}}},
       [](Operands o) {
         const BatchNormOptions training{.training = true};
         return batch_norm_pair(o[0], {o[1], o[2], {}, training}, o[3], {o[4], o[5], {}, training});
       }},
      {"batch_norm_max_pool2d",
       {{"x", {2, 5, 4, 3}}, {"gamma", {3}, 0.5, 2}, {"beta", {3}}},
       [](Operands o) {
         return batch_norm_max_pool2d(o[0], {o[1], o[2], {}, {.training = true}},
                                      {.kernel = 3, .stride = Pair(2), .padding = 1});
       }},
      {"layer_norm",
       {{"x", {3, 6}}, {"gamma", {6}, 0.5, 2}, {"beta", {6}}},
       [](Operands o) { return layer_norm(o[0], o[1], o[2]); }},
  };
}

std::vector<GradcheckOperator> losses() {
  return {
      {"softmax", {{"x", {3, 5}, -2, 2}}, [](Operands o) { return softmax(o[0]); }},
      {"log_softmax", {{"x", {3, 5}, -2, 2}}, [](Operands o) { return log_softmax(o[0]); }},
      {"cross_entropy",
       {{"logits", {4, 3}, -2, 2}},
       [](Operands o) {
         return cross_entropy(o[0], indices({2, 0, 1, 1}, {4}), {.label_smoothing = 0.1});
       }},
      {"binary_cross_entropy_with_logits",
       {{"logits", {4, 1}, -2, 2}},
       [](Operands o) {
         return binary_cross_entropy_with_logits(o[0], from_vector({1, 0, 0.3, 1}, {4, 1}, f64));
       }},
      {"mse_loss",
       {{"prediction", {3, 2}}, {"target", {3, 2}}},
       [](Operands o) { return mse_loss(o[0], o[1]); }},
  };
}

Tensor draw(const OperandSpec& spec, uint64_t stream) {
  const auto count = static_cast<size_t>(spec.shape.count());
  std::vector<double> values(count);
  for (size_t i = 0; i < count; ++i) {
    // 0.37: off the middle of each cell, so that a range around 0 does not hit 0.
    values[i] = spec.low + (spec.high - spec.low) * (static_cast<double>(i) + 0.37) /
                               static_cast<double>(count);
  }
  PhiloxStream random(7, stream);
  for (size_t i = count; i > 1; --i) {
    std::swap(values[i - 1], values[random.below(static_cast<uint32_t>(i))]);
  }
  return from_vector(values, spec.shape, f64);
}

}  // namespace

std::span<const GradcheckOperator> gradcheck_operators() {
  static const std::vector<GradcheckOperator> all = [] {
    std::vector<GradcheckOperator> rows;
    for (auto* part : {arithmetic, activations, reductions, movements, products, pools,
                       recurrent_layers, norms, losses}) {
      for (GradcheckOperator& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

std::vector<GradcheckResult> gradcheck_operator(const GradcheckOperator& op,
                                                const GradcheckOptions& options) {
  std::vector<GradcheckInput> inputs;
  std::vector<Tensor> operands;
  for (const OperandSpec& spec : op.operands) {
    operands.push_back(draw(spec, stream_of(op.name) + operands.size()));
    inputs.push_back({spec.name, operands.back()});
  }
  return gradcheck([&] { return op.apply(operands); }, inputs, options);
}

}  // namespace whisker
