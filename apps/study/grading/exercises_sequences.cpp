// Lessons 7 to 9 but for recurrence: embeddings, attention, recomputation, gradients of gradients.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

namespace whisker {
namespace {

using V = const Values&;

Tensor swapped(const Tensor& x) {
  return transpose(x, {1, 0});
}

// Rows of x whose number `keeps` accepts; zeros elsewhere.
Tensor rows_where(const Tensor& x, const std::function<bool(size_t)>& keeps) {
  std::vector<double> mask;
  for (size_t i = 0; i < static_cast<size_t>(x.extent(0)); ++i) mask.push_back(keeps(i) ? 1 : 0);
  return x * from_vector(mask, {x.extent(0), 1}, x.options());
}

Exercise embedding_backward() {
  Exercise exercise{
      .name = "embedding",
      .lesson = 7,
      .title = "y = rows of a table, by their index: the gradient of the table",
      .signature = "embedding_backward(View<const T> dy, View<const int> index, View<T> dtable)",
      .setups = {{"each row once", {{"table", {3, 2}}}, {{"tokens", 3}}},
                 {"repeated indices", {{"table", {4, 3}}}, {{"tokens", 7}}}},
      .prepare =
          [](Values& v, uint64_t seed) {
            const int64_t entries = v["table"].extent(0), tokens = v.whole("tokens");
            std::vector<double> index;
            for (int64_t i = 0; i < tokens; ++i) {
              // A permutation first, then rows that were there.
              index.push_back(static_cast<double>((2 - i % 3 + 5 * (i / 3)) % entries));
            }
            if (seed == 2) std::swap(index.front(), index.back());
            v.set("index",
                  from_vector(index, {tokens}, {.dtype = DType::i64, .device = reference_device}));
          },
      .forward = [](V v) { return embedding(v["table"], v["index"]); }};
  const auto of_rows =
      [exercise](const std::function<bool(const std::vector<double>&, size_t)>& keeps) {
        return [=](V v) {
          const std::vector<double> index = v["index"].to_vector();
          Values masked = v;
          masked.set("dy", rows_where(v["dy"], [&](size_t i) { return keeps(index, i); }));
          return engine_gradient(exercise, masked, "table");
        };
      };
  exercise.faults = {
      {"dtable", "a row that is read several times keeps its last gradient: '+=' adds them",
       of_rows([](const std::vector<double>& index, size_t i) {
         return std::find(index.begin() + static_cast<std::ptrdiff_t>(i) + 1, index.end(),
                          index[i]) == index.end();
       })},
      {"dtable", "a row that is read several times keeps its first gradient: all of them add up",
       of_rows([](const std::vector<double>& index, size_t i) {
         return std::find(index.begin(), index.end(), index[i]) - index.begin() ==
                static_cast<std::ptrdiff_t>(i);
       })},
      {"dtable", "index is not used: token i reads row index[i] of the table, not row i",
       [](V v) {
         const int64_t entries = v["table"].extent(0);
         if (v["dy"].extent(0) >= entries) return slice(v["dy"], 0, 0, entries);
         return v["dy"];
       }},
      {"dtable", "the gradient is averaged over the tokens that read a row, not summed",
       [exercise](V v) {
         const Tensor counts = sum(one_hot(v["index"], v["table"].extent(0), DType::f64), {0});
         return engine_gradient(exercise, v, "table") /
                maximum(counts, ones(counts.shape(), counts.options())).reshape({-1, 1});
       }}};
  return exercise;
}

struct AttentionFault {
  bool unscaled = false, diagonal = false, not_transposed = false;
};
Tensor probabilities(V v) {
  const double scale = 1 / std::sqrt(static_cast<double>(v["q"].extent(1)));
  return softmax(matmul(v["q"], swapped(v["k"])) * scale);
}
// dq or dk.
Tensor attention_gradient(V v, bool of_q, AttentionFault fault) {
  const Tensor p = probabilities(v), dp = matmul(v["dy"], swapped(v["v"]));
  Tensor ds = p * (dp - sum(dp * p, {1}, {.keep_axes = true}));
  if (fault.diagonal) ds = p * affine(p, -1, 1) * dp;
  if (!fault.unscaled) ds = ds * (1 / std::sqrt(static_cast<double>(v["q"].extent(1))));
  if (of_q) return matmul(ds, v["k"]);
  return matmul(fault.not_transposed ? ds : swapped(ds), v["q"]);
}

Exercise attention_backward() {
  const auto with = [](bool of_q, AttentionFault fault) {
    return [=](V v) { return attention_gradient(v, of_q, fault); };
  };
  constexpr const char* unscaled = "the scale 1 / sqrt(d) is missing";
  constexpr const char* diagonal =
      "only the diagonal of the softmax's slopes counts: ds = p (dp - sum of dp p in the row)";
  return {
      .name = "attention",
      .lesson = 8,
      .title = "y = softmax(q k^T / sqrt(d)) v, one head",
      .signature =
          "attention_backward(View<const T> dy, View<const T> q, View<const T> k, "
          "View<const T> v, View<T> dq, View<T> dk, View<T> dv)",
      .setups = {{"2 queries, 2 keys", {{"q", {2, 3}}, {"k", {2, 3}}, {"v", {2, 2}}}},
                 {"3 queries, 4 keys", {{"q", {3, 2}}, {"k", {4, 2}}, {"v", {4, 3}}}}},
      .forward = [](V v) { return matmul(probabilities(v), v["v"]); },
      .faults = {{"dq", unscaled, with(true, {.unscaled = true})},
                 {"dk", unscaled, with(false, {.unscaled = true})},
                 {"dq", diagonal, with(true, {.diagonal = true})},
                 {"dk", diagonal, with(false, {.diagonal = true})},
                 {"dk", "ds is not transposed: dk = ds^T q", with(false, {.not_transposed = true})},
                 {"dv", "p is not transposed: dv = p^T dy",
                  [](V v) { return matmul(probabilities(v), v["dy"]); }}}};
}

Exercise recomputed_block() {
  const auto inner = [](V v) { return tanh(matmul(v["x"], v["w1"])); };
  const auto slope = [inner](V v) {
    const Tensor h = inner(v);
    return affine(h * h, -1, 1);
  };
  const auto dh = [](V v) { return matmul(v["dy"], swapped(v["w2"])); };
  return {
      .name = "recomputed_block",
      .lesson = 9,
      .title = "y = tanh(x w1) w2, where the forward pass kept x alone",
      .signature =
          "block_backward(View<const T> dy, View<const T> x, View<const T> w1, "
          "View<const T> w2, View<T> dx, View<T> dw1, View<T> dw2)",
      .setups = {{"2 examples", {{"x", {2, 2}}, {"w1", {2, 2}}, {"w2", {2, 2}}}},
                 {"4 examples", {{"x", {4, 2}}, {"w1", {2, 3}}, {"w2", {3, 5}}}}},
      .forward = [inner](V v) { return matmul(inner(v), v["w2"]); },
      .faults = {
          {"dw2", "the wrong tensor: x w1 before the tanh; w2 multiplies tanh(x w1)",
           [](V v) { return matmul(swapped(matmul(v["x"], v["w1"])), v["dy"]); }},
          {"dw1", "the slope of tanh is missing: 1 - h^2",
           [=](V v) { return matmul(swapped(v["x"]), dh(v)); }},
          {"dx", "the slope of tanh is missing: 1 - h^2",
           [=](V v) { return matmul(dh(v), swapped(v["w1"])); }},
          {"dx", "w1 is not transposed: dx = da w1^T",
           [=](V v) { return matmul(dh(v) * slope(v), v["w1"]); }},
          {"dw1", "the slope of tanh is taken at the wrong tensor: 1 - h^2, with h = tanh(x w1)",
           [=](V v) {
             const Tensor a = matmul(v["x"], v["w1"]);
             return matmul(swapped(v["x"]), dh(v) * affine(a * a, -1, 1));
           }},
          {"dw2", "the sum over the batch is missing: the last example alone counts", [=](V v) {
             const auto last = static_cast<size_t>(v["x"].extent(0)) - 1;
             return matmul(swapped(inner(v)),
                           rows_where(v["dy"], [=](size_t i) { return i == last; }));
           }}}};
}

Exercise gradient_penalty() {
  const auto slope = [](V v) {
    const Tensor y = tanh(v["x"]);
    return affine(y * y, -1, 1);
  };
  return {.name = "gradient_penalty",
          .lesson = 9,
          .title = "a gradient of a gradient: P = the sum of g^2, where g = the slope of tanh(x)",
          .signature = "gradient_penalty(View<const T> x, View<T> dx)",
          .setups = {{"3 elements", {{"x", {3}}}}, {"2 x 4", {{"x", {2, 4}}}}},
          .forward = [=](V v) { return sum(slope(v) * slope(v)); },
          .faults = {
              {"dx", "this is dP/dg = 2 g: g depends on x, so its slope is a factor, too",
               [=](V v) { return 2.0 * slope(v); }},
              {"dx", "this is the slope of g alone; P has the slope 2 g with respect to g",
               [=](V v) { return -2.0 * tanh(v["x"]) * slope(v); }},
              {"dx", "the factor 1 - y^2 is missing once: y depends on x, too",
               [=](V v) { return -4.0 * tanh(v["x"]) * slope(v); }},
              {"dx", "this is g^2, not its gradient", [=](V v) { return slope(v) * slope(v); }}}};
}

}  // namespace

std::vector<Exercise> sequence_exercises() {
  return {embedding_backward(), attention_backward(), recomputed_block(), gradient_penalty()};
}

}  // namespace whisker
