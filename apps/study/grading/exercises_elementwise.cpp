// Lessons 1 and 2: scalars and elementwise operators.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

#include <cmath>
#include <utility>

namespace whisker {
namespace {

using V = const Values&;

Tensor one_minus_square(const Tensor& y) {
  return affine(y * y, -1, 1);
}

Exercise chain_rule() {
  Exercise exercise{.name = "chain_rule",
                    .lesson = 1,
                    .title = "the chain rule on numbers: L = (tanh(w x + b) - t)^2",
                    .signature = "chain_rule(T x, T w, T b, T t, T& dx, T& dw, T& db)",
                    .setups = {{"numbers", {{"x", {}}, {"w", {}}, {"b", {}}, {"t", {}}}}},
                    .forward = [](V v) { return pow(tanh(v["w"] * v["x"] + v["b"]) - v["t"], 2); }};
  // Wrong ways to dL/du, from dy = dL/dy, y = tanh(u) and u = w x + b.
  using T = const Tensor&;
  const std::pair<std::string_view, Tensor (*)(T dy, T y, T u)> slopes[] = {
      {"the slope of tanh is missing: 1 - tanh(w x + b)^2", [](T dy, T, T) { return dy; }},
      {"the slope of tanh is 1 - y^2 of its result y, not of its argument",
       [](T dy, T, T u) { return dy * one_minus_square(u); }},
      {"y is tanh(w x + b) already, and tanh is taken once more",
       [](T dy, T y, T) { return dy * one_minus_square(tanh(y)); }},
      {"the square in the slope of tanh is missing: 1 - y^2",
       [](T dy, T y, T) { return dy * affine(y, -1, 1); }},
      {"the slope of tanh is 1 - y^2, not 1 + y^2",
       [](T dy, T y, T) { return dy * affine(y * y, 1, 1); }},
      {"dL/dy is left out: 2 (y - t)", [](T, T y, T) { return one_minus_square(y); }},
      {"dL/dy is 2 (y - t), not 2 (y - t)^2",
       [](T dy, T y, T) { return 0.5 * dy * dy * one_minus_square(y); }}};
  for (const auto& [says, du] : slopes) {
    for (const std::string_view result : {"dx", "dw", "db"}) {
      exercise.faults.push_back({result, says, [result, du](V v) {
                                   const Tensor u = v["w"] * v["x"] + v["b"], y = tanh(u);
                                   const Tensor to_u = du(2.0 * (y - v["t"]), y, u);
                                   if (result == "db") return to_u;
                                   return to_u * v[result == "dx" ? "w" : "x"];
                                 }});
    }
  }
  return exercise;
}

using D = double;

// What a rule of the tape passes on, and whether it keeps what is there (1: '+=', 0: '=').
struct TapeRules {
  D (*add)(D dy) = [](D dy) { return dy; };
  D (*mul)(D dy, D own, D other, int row) = [](D dy, D, D other, int) { return dy * other; };
  D (*tanh)(D dy, D u, D y) = [](D dy, D, D y) { return dy * (1 - y * y); };
  D (*square)(D dy, D e) = [](D dy, D e) { return dy * 2 * e; };
  D add_keeps = 1, mul_keeps = 1, tanh_keeps = 1, square_keeps = 1;
};

// dx, dw or db by these rules; call.h has the rows.
Tensor tape_gradient(V v, char of, const TapeRules& rules) {
  const double x = v.number("x"), w = v.number("w"), u = w * x + v.number("b"), y = std::tanh(u);
  double sums[11] = {1};  // the gradients of the sums, from the last one back
  for (size_t k = 1; k < 11; ++k) sums[k] = rules.add(sums[k - 1]);
  const auto two = [&](double first, double second) { return rules.add_keeps * first + second; };
  const double dsquare = two(two(sums[9], sums[10]), sums[10]);
  const double de =
      rules.square_keeps * two(sums[7], sums[8]) + rules.square(dsquare, y - v.number("t"));
  const double du = rules.tanh_keeps * two(sums[5], sums[6]) + rules.tanh(rules.add(de), u, y);
  const double dproduct = two(two(sums[3], sums[4]), rules.add(du));
  const double gradient = of == 'x'   ? rules.mul_keeps * sums[2] + rules.mul(dproduct, x, w, 2)
                          : of == 'w' ? rules.mul_keeps * sums[1] + rules.mul(dproduct, w, x, 3)
                                      : rules.add(du);
  return full({}, gradient, v["x"].options());
}

std::vector<Fault> tape_faults() {
  const std::pair<std::string_view, TapeRules> rules[] = {
      {"'=' in the rules forgets what other rows gave before: '+=' adds",
       {.add_keeps = 0, .mul_keeps = 0, .tanh_keeps = 0, .square_keeps = 0}},
      {"'=' in the rule of the sum: '+=' adds to what others gave", {.add_keeps = 0}},
      {"'=' in the rule of the product: '+=' adds to what others gave", {.mul_keeps = 0}},
      {"'=' in the rule of tanh: '+=' adds to what others gave", {.tanh_keeps = 0}},
      {"'=' in the rule of the square: '+=' adds to what others gave", {.square_keeps = 0}},
      {"the rule of the sum passes on 1, not dy", {.add = [](D) { return 1.0; }}},
      {"the rule of the sum divides dy: each operand gets all of it",
       {.add = [](D dy) { return dy / 2; }}},
      {"it is 1, as a last sum gives it: the rule of the sum or the product forgets an operand",
       {.mul = [](D, D, D, int) { return 0.0; }}},
      {"the rule of the product leaves dy out: a gets dy b",
       {.mul = [](D, D, D other, int) { return other; }}},
      {"the rule of the product passes on the wrong factor: a gets dy b",
       {.mul = [](D dy, D own, D, int) { return dy * own; }}},
      {"the rule of the product multiplies by y: a gets dy b",
       {.mul = [](D dy, D own, D other, int) { return dy * own * other; }}},
      {"the rule of the product multiplies by a row's number: rows[y.b].value is its value",
       {.mul = [](D dy, D, D, int row) { return dy * row; }}},
      {"the rule of tanh leaves dy out: a gets dy (1 - y^2)",
       {.tanh = [](D, D, D y) { return 1 - y * y; }}},
      {"the rule of tanh lacks its slope: 1 - y^2", {.tanh = [](D dy, D, D) { return dy; }}},
      {"the rule of tanh lacks the square in its slope: 1 - y^2",
       {.tanh = [](D dy, D, D y) { return dy * (1 - y); }}},
      {"the rule of tanh takes 1 - a^2 of its operand: its slope is 1 - y^2 of its result",
       {.tanh = [](D dy, D u, D) { return dy * (1 - u * u); }}},
      {"the rule of tanh passes on nothing", {.tanh = [](D, D, D) { return 0.0; }}},
      {"the rule of the square leaves dy out: a gets dy 2 a",
       {.square = [](D, D e) { return 2 * e; }}},
      {"the rule of the square lacks the factor 2: its slope is 2 a",
       {.square = [](D dy, D e) { return dy * e; }}},
      {"the rule of the square passes on dy alone: its slope is 2 a",
       {.square = [](D dy, D) { return dy; }}},
      {"the rule of the square lacks the factor a: its slope is 2 a",
       {.square = [](D dy, D) { return dy * 2; }}},
      {"the rule of the square takes 2 y of its result: its slope is 2 a of its operand",
       {.square = [](D dy, D e) { return dy * 2 * e * e; }}},
      {"the rule of the square passes on nothing", {.square = [](D, D) { return 0.0; }}}};
  std::vector<Fault> faults;
  for (const auto& [says, one] : rules) {
    for (const std::string_view result : {"dx", "dw", "db"}) {
      faults.push_back(
          {result, says, [result, one](V v) { return tape_gradient(v, result[1], one); }});
    }
  }
  return faults;
}

Exercise scalar_engine() {
  return {.name = "scalar_engine",
          .lesson = 1,
          .title = "an engine for numbers: the rules of +, *, tanh and ^2 on a tape",
          .signature = "scalar_engine(T x, T w, T b, T t, T& dx, T& dw, T& db)",
          .setups = {{"numbers", {{"x", {}}, {"w", {}}, {"b", {}}, {"t", {}}}}},
          .forward =
              [](V v) {
                const Tensor product = v["w"] * v["x"], u = product + v["b"], e = tanh(u) - v["t"];
                return v["w"] + v["x"] + 2.0 * product + 2.0 * u + 2.0 * e + 3.0 * e * e;
              },
          .faults = tape_faults()};
}

Exercise mul_backward() {
  constexpr const char* together =
      "a dy + b dy is what both together change; da is for a alone, and db for b alone";
  return {.name = "mul",
          .lesson = 2,
          .title = "y = a * b, element by element",
          .signature =
              "mul_backward(View<const T> dy, View<const T> a, View<const T> b, "
              "View<T> da, View<T> db)",
          .setups = {{"3 elements", {{"a", {3}}, {"b", {3}}}},
                     {"2 x 3", {{"a", {2, 3}}, {"b", {2, 3}}}}},
          .forward = [](V v) { return v["a"] * v["b"]; },
          .faults = {{"da", "dy / b divides where the rule multiplies",
                      [](V v) { return v["dy"] / v["b"]; }},
                     {"da", together, [](V v) { return v["dy"] * (v["a"] + v["b"]); }},
                     {"db", together, [](V v) { return v["dy"] * (v["a"] + v["b"]); }}}};
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
          .faults = {{"dx", "that is y = max(x, 0) itself; dx is dy times its slope, 1 or 0",
                      [](V v) { return relu(v["x"]); }},
                     {"dx", "-dy passes where x is below 0; the slope there is 0",
                      [=](V v) { return v["dy"] * affine(positive(v), 2, -1); }},
                     {"dx", "dy passes everywhere: where x is below 0, the slope is 0",
                      [](V v) { return v["dy"]; }},
                     {"dx", "it asks for the sign of dy; the slope depends on that of x",
                      [](V v) { return relu(v["dy"]); }},
                     {"dx", "it is the other way round: dy passes where x is below 0",
                      [=](V v) { return v["dy"] * affine(positive(v), -1, 1); }}}};
}

// The exercise y = f(x) where the answer is given y alone.
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
                   [](V v) { return v["dy"] * one_minus_square(tanh(v["y"])); }},
                  {"dx", "the slope is 1 - y^2, not 1 + y^2",
                   [](V v) { return v["dy"] * affine(v["y"] * v["y"], 1, 1); }},
                  {"dx", "dy is a factor of the whole slope: dy (1 - y^2)",
                   [](V v) { return affine(v["dy"] * v["y"] * v["y"], -1, 1); }},
                  {"dx", "(1 - y)^2 is not 1 - y^2",
                   [](V v) { return v["dy"] * pow(affine(v["y"], -1, 1), 2); }},
                  {"dx", "the slope is missing: 1 - y^2", [](V v) { return v["dy"]; }},
                  {"dx", "the square is missing: the slope is 1 - y^2",
                   [](V v) { return v["dy"] * affine(v["y"], -1, 1); }},
                  {"dx", "that is the slope of the sigmoid, y (1 - y); tanh has 1 - y^2",
                   [](V v) { return v["dy"] * v["y"] * affine(v["y"], -1, 1); }},
                  {"dx", "it is dy - y^2: brackets are missing in dy (1 - y^2)",
                   [](V v) { return v["dy"] - v["y"] * v["y"]; }}}},
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
                  {"dx", "the factor 1 - y is missing: the slope is y (1 - y)",
                   [](V v) { return v["dy"] * v["y"]; }},
                  {"dx", "that is the slope of tanh, 1 - y^2; the sigmoid has y (1 - y)",
                   [](V v) { return v["dy"] * one_minus_square(v["y"]); }}}},
      sigmoid);
}

}  // namespace

std::vector<Exercise> elementwise_exercises() {
  return {chain_rule(),    scalar_engine(), mul_backward(),
          relu_backward(), tanh_backward(), sigmoid_backward()};
}

}  // namespace whisker
