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
  return {chain_rule(), mul_backward(), add_broadcast()};
}

}  // namespace whisker
