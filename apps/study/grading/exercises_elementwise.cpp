// Lessons 1 to 3: scalars, elementwise operators and broadcasting.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

namespace whisker {
namespace {

using V = const Values&;

Exercise chain_rule() {
  const auto inner = [](V v) { return tanh(v["w"] * v["x"] + v["b"]); };
  const auto outer = [inner](V v) { return 2.0 * (inner(v) - v["t"]); };
  const auto slope = [inner](V v) { return affine(inner(v) * inner(v), -1, 1); };
  return {.name = "chain_rule",
          .lesson = 1,
          .title = "the chain rule on numbers: L = (tanh(w x + b) - t)^2",
          .signature = "chain_rule(T x, T w, T b, T t, T& dx, T& dw, T& db)",
          .setups = {{"numbers", {{"x", {}}, {"w", {}}, {"b", {}}, {"t", {}}}},
                     {"other numbers", {{"x", {}}, {"w", {}}, {"b", {}}, {"t", {}}}}},
          .prepare =
              [](Values& v, uint64_t seed) {
                // Another draw for each: what passes by accident at one point fails at the next.
                if (seed == 2) v.set("x", affine(v["x"], -1, 0.5));
              },
          .forward = [inner](V v) { return pow(inner(v) - v["t"], 2); },
          .faults =
              {
                  {"dw", "the last factor is missing: w x + b has the slope x with respect to w",
                   [=](V v) { return outer(v) * slope(v); }},
                  {"dw", "the slope of w x + b with respect to w is x, not w",
                   [=](V v) { return outer(v) * slope(v) * v["w"]; }},
                  {"dx", "the last factor is missing: w x + b has the slope w with respect to x",
                   [=](V v) { return outer(v) * slope(v); }},
                  {"dx", "the slope of w x + b with respect to x is w, not x",
                   [=](V v) { return outer(v) * slope(v) * v["x"]; }},
                  {"db", "the slope of tanh is missing: 1 - tanh(w x + b)^2",
                   [=](V v) { return outer(v); }},
                  {"dw", "the slope of tanh is missing: 1 - tanh(w x + b)^2",
                   [=](V v) { return outer(v) * v["x"]; }},
                  {"dx", "the slope of tanh is missing: 1 - tanh(w x + b)^2",
                   [=](V v) { return outer(v) * v["w"]; }},
                  {"db", "the slope of tanh is 1 - y^2 of its result y, not of its argument",
                   [=](V v) {
                     const Tensor u = v["w"] * v["x"] + v["b"];
                     return outer(v) * affine(u * u, -1, 1);
                   }},
              }};
}

Exercise scalar_engine() {
  const auto product = [](V v) { return v["w"] * v["x"]; };
  const auto inner = [=](V v) { return tanh(product(v) + v["b"]); };
  const auto outer = [=](V v) { return 2.0 * (inner(v) - v["t"]); };
  const auto slope = [=](V v) { return affine(inner(v) * inner(v), -1, 1); };
  constexpr const char* overwritten =
      "a row that is read twice keeps one gradient: '+=' adds those of all that read it";
  return {.name = "scalar_engine",
          .lesson = 1,
          .title = "an engine for numbers: the rules of +, *, tanh and ^2 on a tape",
          .signature = "scalar_engine(T x, T w, T b, T t, T& dx, T& dw, T& db)",
          .setups = {{"numbers", {{"x", {}}, {"w", {}}, {"b", {}}, {"t", {}}}}},
          .forward = [=](V v) { return pow(inner(v) - v["t"], 2) + product(v); },
          .faults = {{"dw", overwritten, [=](V v) { return outer(v) * slope(v) * v["x"]; }},
                     {"dx", overwritten, [=](V v) { return outer(v) * slope(v) * v["w"]; }},
                     {"dw", overwritten, [](V v) { return v["x"]; }},
                     {"dx", overwritten, [](V v) { return v["w"]; }},
                     {"dw", "the rule of the product passes on the wrong factor: a gets dy b",
                      [=](V v) { return affine(outer(v) * slope(v), 1, 1) * v["w"]; }},
                     {"dx", "the rule of the product passes on the wrong factor: a gets dy b",
                      [=](V v) { return affine(outer(v) * slope(v), 1, 1) * v["x"]; }},
                     {"db", "the rule of tanh lacks its slope: 1 - y^2", outer},
                     {"db", "the rule of the square lacks the factor 2: its slope is 2 a",
                      [=](V v) { return 0.5 * outer(v) * slope(v); }},
                     {"db", "the rule of the square passes on dy alone: its slope is 2 a", slope}}};
}

Exercise mul_backward() {
  return {
      .name = "mul",
      .lesson = 2,
      .title = "y = a * b, element by element",
      .signature =
          "mul_backward(View<const T> dy, View<const T> a, View<const T> b, "
          "View<T> da, View<T> db)",
      .setups = {{"3 elements", {{"a", {3}}, {"b", {3}}}},
                 {"2 x 3", {{"a", {2, 3}}, {"b", {2, 3}}}}},
      .forward = [](V v) { return v["a"] * v["b"]; },
      .faults = {{"da", "the other factor is missing: da = dy * b", [](V v) { return v["dy"]; }},
                 {"da", "the wrong tensor: the slope with respect to a is b, not a",
                  [](V v) { return v["dy"] * v["a"]; }},
                 {"db", "the other factor is missing: db = dy * a", [](V v) { return v["dy"]; }},
                 {"db", "the wrong tensor: the slope with respect to b is a, not b",
                  [](V v) { return v["dy"] * v["b"]; }},
                 {"da", "the wrong tensor: it multiplies by y = a * b",
                  [](V v) { return v["dy"] * v["a"] * v["b"]; }},
                 {"da", "dy / b divides where the rule multiplies",
                  [](V v) { return v["dy"] / v["b"]; }}}};
}

// No element is near the kink at 0, and both sides are there.
void away_from_zero(Values& v, uint64_t) {
  const Tensor& x = v["x"];
  const Tensor zero = zeros(x.shape(), x.options());
  v.set("x", where(greater(x, zero), x + 0.25, x - 0.25));
}

Exercise relu_backward() {
  const auto positive = [](V v) {
    return cast(greater(v["x"], zeros(v["x"].shape(), v["x"].options())), DType::f64);
  };
  return {.name = "relu",
          .lesson = 2,
          .title = "y = max(x, 0), element by element",
          .signature = "relu_backward(View<const T> dy, View<const T> x, View<T> dx)",
          .setups = {{"4 elements", {{"x", {4}}}}, {"3 x 5", {{"x", {3, 5}}}}},
          .prepare = away_from_zero,
          .forward = [](V v) { return relu(v["x"]); },
          .faults = {{"dx", "dy passes everywhere: where x is below 0, the slope is 0",
                      [](V v) { return v["dy"]; }},
                     {"dx", "dy is multiplied by y = max(x, 0); the slope is 1, not x",
                      [](V v) { return v["dy"] * relu(v["x"]); }},
                     {"dx", "it asks for the sign of dy; the slope depends on that of x",
                      [](V v) { return relu(v["dy"]); }},
                     {"dx", "it is the other way round: dy passes where x is below 0",
                      [=](V v) { return v["dy"] * affine(positive(v), -1, 1); }}}};
}

// Of y = f(x) where the answer is given y alone.
Exercise from_result(Exercise exercise, Tensor (*f)(const Tensor&)) {
  exercise.setups = {{"3 elements", {{"x", {3}}}}, {"2 x 4", {{"x", {2, 4}}}}};
  exercise.prepare = [f](Values& v, uint64_t) { v.set("y", f(v["x"])); };
  exercise.forward = [f](V v) { return f(v["x"]); };
  return exercise;
}

Exercise tanh_backward() {
  return from_result(
      {.name = "tanh",
       .lesson = 2,
       .title = "y = tanh(x), where the tape kept y and not x",
       .signature = "tanh_backward(View<const T> dy, View<const T> y, View<T> dx)",
       .faults = {{"dx", "the wrong tensor: y is tanh(x) already, and tanh is taken once more",
                   [](V v) {
                     const Tensor again = tanh(v["y"]);
                     return v["dy"] * affine(again * again, -1, 1);
                   }},
                  {"dx", "the slope is missing: 1 - y^2", [](V v) { return v["dy"]; }},
                  {"dx", "the square is missing: the slope is 1 - y^2",
                   [](V v) { return v["dy"] * affine(v["y"], -1, 1); }},
                  {"dx", "that is the slope of the sigmoid, y (1 - y); tanh has 1 - y^2",
                   [](V v) { return v["dy"] * v["y"] * affine(v["y"], -1, 1); }},
                  {"dx", "dy is multiplied by y, not by the slope 1 - y^2",
                   [](V v) { return v["dy"] * v["y"]; }}}},
      tanh);
}

Exercise sigmoid_backward() {
  return from_result(
      {.name = "sigmoid",
       .lesson = 2,
       .title = "y = 1 / (1 + exp(-x)), where the tape kept y and not x",
       .signature = "sigmoid_backward(View<const T> dy, View<const T> y, View<T> dx)",
       .faults = {{"dx", "the wrong tensor: y is the sigmoid already, and it is taken once more",
                   [](V v) {
                     const Tensor again = sigmoid(v["y"]);
                     return v["dy"] * again * affine(again, -1, 1);
                   }},
                  {"dx", "the slope is missing: y (1 - y)", [](V v) { return v["dy"]; }},
                  {"dx", "the factor y is missing: the slope is y (1 - y)",
                   [](V v) { return v["dy"] * affine(v["y"], -1, 1); }},
                  {"dx", "the factor 1 - y is missing: the slope is y (1 - y)",
                   [](V v) { return v["dy"] * v["y"]; }},
                  {"dx", "that is the slope of tanh, 1 - y^2; the sigmoid has y (1 - y)",
                   [](V v) { return v["dy"] * affine(v["y"] * v["y"], -1, 1); }}}},
      sigmoid);
}

Tensor raised(const Tensor& x, const Tensor& p) {
  return exp(p * log(x));
}

Exercise power_backward() {
  return {.name = "power",
          .lesson = 3,
          .title = "y = x^p with one exponent p for all elements: the gradients of x and of p",
          .signature = "power_backward(View<const T> dy, View<const T> x, T p, View<T> dx, T& dp)",
          .setups = {{"exponent 2.5", {{"x", {3}}}, {{"p", 2.5}}},
                     {"exponent -1.5", {{"x", {2, 4}}}, {{"p", -1.5}}}},
          .prepare = [](Values& v, uint64_t) { v.set("x", abs(v["x"]) + 0.5); },
          .forward = [](V v) { return raised(v["x"], v["p"]); },
          .faults = {{"dx", "the exponent is not reduced by 1: the slope is p x^(p-1)",
                      [](V v) { return v["dy"] * raised(v["x"], v["p"]) * v["p"]; }},
                     {"dx", "the factor p is missing: the slope is p x^(p-1)",
                      [](V v) { return v["dy"] * raised(v["x"], v["p"] - 1.0); }},
                     {"dp", "the factor ln(x) is missing: x^p = exp(p ln(x))",
                      [](V v) { return sum(v["dy"] * raised(v["x"], v["p"])); }},
                     {"dp", "the factor x^p is missing: the slope of exp(p ln(x)) is x^p ln(x)",
                      [](V v) { return sum(v["dy"] * log(v["x"])); }},
                     {"dp", "the sum over the elements is missing: '=' keeps the last; '+=' adds",
                      [](V v) {
                        const Tensor all =
                            (v["dy"] * raised(v["x"], v["p"]) * log(v["x"])).reshape({-1});
                        return slice(all, 0, all.count() - 1, all.count());
                      }},
                     {"dp", "it is the mean over the elements, not their sum",
                      [](V v) { return mean(v["dy"] * raised(v["x"], v["p"]) * log(v["x"])); }}}};
}

Exercise add_broadcast() {
  return {
      .name = "add_broadcast",
      .lesson = 3,
      .title = "y = a + b, where b (columns) is added to each row of a (rows, columns)",
      .signature = "add_backward(View<const T> dy, View<T> da, View<T> db)",
      .setups = {{"1 row, without broadcasting", {{"a", {1, 3}}, {"b", {3}}}},
                 {"2 rows, broadcasting", {{"a", {2, 3}}, {"b", {3}}}},
                 {"5 rows, broadcasting", {{"a", {5, 2}}, {"b", {2}}}}},
      .forward = [](V v) { return v["a"] + v["b"]; },
      .faults = {
          {"db", "the sum over the rows is missing: it holds the first row of dy alone",
           [](V v) { return slice(v["dy"], 0, 0, 1).reshape(v["b"].shape()); }},
          {"db", "the sum over the rows is missing: '=' in the loop keeps the last row; '+=' adds",
           [](V v) {
             const int64_t rows = v["dy"].extent(0);
             return slice(v["dy"], 0, rows - 1, rows).reshape(v["b"].shape());
           }},
          {"db", "it is the mean over the rows of dy, not their sum",
           [](V v) { return mean(v["dy"], {0}); }},
          {"db", "it sums over all of dy, not over the rows of each column",
           [](V v) { return broadcast_to(sum(v["dy"]), v["b"].shape()); }},
          {"da", "it is multiplied by a; the slope of a + b is 1",
           [](V v) { return v["dy"] * v["a"]; }}}};
}

}  // namespace

std::vector<Exercise> elementwise_exercises() {
  return {chain_rule(),    scalar_engine(),    mul_backward(),  relu_backward(),
          tanh_backward(), sigmoid_backward(), add_broadcast(), power_backward()};
}

}  // namespace whisker
