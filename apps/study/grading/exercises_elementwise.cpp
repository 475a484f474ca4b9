// Lessons 1 to 3: scalars, elementwise operators and broadcasting.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

#include <cmath>
#include <utility>

namespace whisker {
namespace {

using V = const Values&;

Exercise chain_rule() {
  const auto inner = [](V v) { return tanh(v["w"] * v["x"] + v["b"]); };
  const auto outer = [inner](V v) { return 2.0 * (inner(v) - v["t"]); };
  const auto slope = [inner](V v) { return affine(inner(v) * inner(v), -1, 1); };
  const auto slope_again = [inner](V v) { return affine(pow(tanh(inner(v)), 2), -1, 1); };
  constexpr const char* tanh_twice = "y is tanh(w x + b) already, and tanh is taken once more";
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
                  {"db", tanh_twice, [=](V v) { return outer(v) * slope_again(v); }},
                  {"dw", tanh_twice, [=](V v) { return outer(v) * slope_again(v) * v["x"]; }},
                  {"dx", tanh_twice, [=](V v) { return outer(v) * slope_again(v) * v["w"]; }},
                  {"db", "the slope of w x + b with respect to b is 1, not b",
                   [=](V v) { return outer(v) * slope(v) * v["b"]; }},
              }};
}

// What a rule of the tape passes on, and whether it keeps what is there (1: '+=', 0: '=').
struct TapeRules {
  double (*mul)(double own, double other, int row) = [](double, double other, int) {
    return other;
  };
  double (*tanh)(double u, double y) = [](double, double y) { return 1 - y * y; };
  double (*square)(double e) = [](double e) { return 2 * e; };
  double add_keeps = 1, mul_keeps = 1, tanh_keeps = 1, square_keeps = 1;
};

// dx, dw or db by these rules; call.h has the rows.
Tensor tape_gradient(V v, char of, const TapeRules& rules) {
  const double x = v.number("x"), w = v.number("w"), u = w * x + v.number("b"), y = std::tanh(u);
  const double de = rules.square(y - v.number("t")) + rules.square_keeps;
  const double du = de * rules.tanh(u, y) + rules.tanh_keeps, dproduct = du + 2 * rules.add_keeps;
  const double gradient = of == 'x'   ? dproduct * rules.mul(x, w, 2)
                          : of == 'w' ? dproduct * rules.mul(w, x, 3) + rules.mul_keeps
                                      : du;
  return full({}, gradient, v["x"].options());
}

std::vector<Fault> tape_faults() {
  const std::pair<std::string_view, TapeRules> rules[] = {
      {"'=' in a rule forgets what other rows gave before: '+=' adds",
       {.add_keeps = 0, .mul_keeps = 0, .tanh_keeps = 0, .square_keeps = 0}},
      {"'=' in the rule of the sum forgets what other rows gave before: '+=' adds",
       {.add_keeps = 0}},
      {"'=' in the rule of the product forgets what other rows gave before: '+=' adds",
       {.mul_keeps = 0}},
      {"'=' in the rule of tanh forgets what other rows gave before: '+=' adds", {.tanh_keeps = 0}},
      {"'=' in the rule of the square forgets what other rows gave before: '+=' adds",
       {.square_keeps = 0}},
      {"the rule of the product passes on the wrong factor: a gets dy b",
       {.mul = [](double own, double, int) { return own; }}},
      {"the rule of the product multiplies by a row's number: rows[y.b].value is its value",
       {.mul = [](double, double, int row) { return static_cast<double>(row); }}},
      {"the rule of tanh lacks its slope: 1 - y^2", {.tanh = [](double, double) { return 1.0; }}},
      {"the rule of tanh takes 1 - a^2 of its operand: its slope is 1 - y^2 of its result",
       {.tanh = [](double u, double) { return 1 - u * u; }}},
      {"the rule of tanh passes on nothing", {.tanh = [](double, double) { return 0.0; }}},
      {"the rule of the square lacks the factor 2: its slope is 2 a",
       {.square = [](double e) { return e; }}},
      {"the rule of the square passes on dy alone: its slope is 2 a",
       {.square = [](double) { return 1.0; }}},
      {"the rule of the square lacks the factor a: its slope is 2 a",
       {.square = [](double) { return 2.0; }}},
      {"the rule of the square takes 2 y of its result: its slope is 2 a of its operand",
       {.square = [](double e) { return 2 * e * e; }}},
      {"the rule of the square passes on nothing", {.square = [](double) { return 0.0; }}}};
  std::vector<Fault> faults = {
      {"dw",
       "it is 1, which the last sum gives it, and no more: the rule of the sum or of the product "
       "passes on to one operand alone, or to none",
       [](V v) { return full({}, 1, v["x"].options()); }}};
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
                return v["w"] + 2.0 * product + u + e + e * e;
              },
          .faults = tape_faults()};
}

Exercise mul_backward() {
  constexpr const char* together =
      "a dy + b dy is what both together change; da is for a alone, and db for b alone";
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
      .faults = {
          {"da", "the other factor is missing: da = dy * b", [](V v) { return v["dy"]; }},
          {"da", "the wrong tensor: the slope with respect to a is b, not a",
           [](V v) { return v["dy"] * v["a"]; }},
          {"db", "the other factor is missing: db = dy * a", [](V v) { return v["dy"]; }},
          {"db", "the wrong tensor: the slope with respect to b is a, not b",
           [](V v) { return v["dy"] * v["b"]; }},
          {"da", "the wrong tensor: it multiplies by y = a * b",
           [](V v) { return v["dy"] * v["a"] * v["b"]; }},
          {"da", "dy / b divides where the rule multiplies", [](V v) { return v["dy"] / v["b"]; }},
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
                     {"dx", "dy is multiplied by y = max(x, 0); the slope is 1, not x",
                      [](V v) { return v["dy"] * relu(v["x"]); }},
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
                   [](V v) {
                     const Tensor again = tanh(v["y"]);
                     return v["dy"] * affine(again * again, -1, 1);
                   }},
                  {"dx", "the slope is missing: 1 - y^2", [](V v) { return v["dy"]; }},
                  {"dx", "the square is missing: the slope is 1 - y^2",
                   [](V v) { return v["dy"] * affine(v["y"], -1, 1); }},
                  {"dx", "that is the slope of the sigmoid, y (1 - y); tanh has 1 - y^2",
                   [](V v) { return v["dy"] * v["y"] * affine(v["y"], -1, 1); }},
                  {"dx", "it is dy - y^2: brackets are missing in dy (1 - y^2)",
                   [](V v) { return v["dy"] - v["y"] * v["y"]; }},
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
