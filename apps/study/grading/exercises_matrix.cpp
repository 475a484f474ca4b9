// Lessons 3, 4 and 10: broadcasting and reductions, matrix products, the loss of a classifier, an
// optimizer's step.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"
#include "core/tensor/philox.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace whisker {
namespace {

using V = const Values&;

Tensor turned(const Tensor& x) {
  return transpose(x, {1, 0});
}

Exercise mean_backward() {
  return {.name = "mean",
          .lesson = 3,
          .title = "y = the mean over the rows of x",
          .signature = "mean_backward(View<const T> dy, View<T> dx)",
          .setups = {{"2 x 3", {{"x", {2, 3}}}}, {"5 x 4", {{"x", {5, 4}}}}},
          .forward = [](V v) { return mean(v["x"], {0}); },
          .faults = {{"dx", "it is divided by the number of columns; the mean is over the rows",
                      [](V v) {
                        return broadcast_to(v["dy"], v["x"].shape()) *
                               (1.0 / static_cast<double>(v["x"].extent(1)));
                      }},
                     {"dx", "it is divided by the number of elements; each mean is over the rows",
                      [](V v) {
                        return broadcast_to(v["dy"], v["x"].shape()) *
                               (1.0 / static_cast<double>(v["x"].count()));
                      }}}};
}

const std::vector<Setup> products = {{"square matrices", {{"a", {2, 2}}, {"b", {2, 2}}}},
                                     {"2 x 3 times 3 x 4", {{"a", {2, 3}}, {"b", {3, 4}}}},
                                     {"4 x 2 times 2 x 3", {{"a", {4, 2}}, {"b", {2, 3}}}}};

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
                     {"dp", "the factor ln(x) is missing: x^p = exp(p ln(x))",
                      [](V v) { return sum(v["dy"] * raised(v["x"], v["p"])); }},
                     {"dp", "the factor x^p is missing: the slope of exp(p ln(x)) is x^p ln(x)",
                      [](V v) { return sum(v["dy"] * log(v["x"])); }},
                     {"dp", "the sum over the elements is missing: '=' keeps the last; '+=' adds",
                      [](V v) {
                        const Tensor all =
                            (v["dy"] * raised(v["x"], v["p"]) * log(v["x"])).reshape({-1});
                        return slice(all, 0, all.count() - 1, all.count());
                      }}}};
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
          {"db", "it sums over all of dy, not over the rows of each column",
           [](V v) { return broadcast_to(sum(v["dy"]), v["b"].shape()); }}}};
}

Exercise matmul_left() {
  return {.name = "matmul_left",
          .lesson = 4,
          .title = "y = a b, a product of matrices: the gradient of a",
          .signature = "matmul_left(View<const T> dy, View<const T> b, View<T> da)",
          .setups = products,
          .forward = [](V v) { return matmul(v["a"], v["b"]); },
          .faults = {{"da", "a factor is not transposed: this is dy b, and da = dy b^T",
                      [](V v) { return matmul(v["dy"], v["b"]); }},
                     {"da", "the factors are in the wrong order: this is b^T dy, and da = dy b^T",
                      [](V v) { return matmul(turned(v["b"]), v["dy"]); }},
                     {"da", "the factors are in the wrong order: this is b dy, and da = dy b^T",
                      [](V v) { return matmul(v["b"], v["dy"]); }},
                     {"da",
                      "the sum over the columns of dy is missing: '=' in the innermost loop keeps "
                      "its last term; '+=' adds",
                      [](V v) {
                        const int64_t last = v["dy"].extent(1) - 1;
                        return matmul(slice(v["dy"], 1, last, last + 1),
                                      turned(slice(v["b"], 1, last, last + 1)));
                      }},
                     {"da", "b is left out: each row of da sums that of dy", [](V v) {
                        return broadcast_to(sum(v["dy"], {1}, {.keep_axes = true}), v["a"].shape());
                      }}}};
}

Exercise matmul_right() {
  return {.name = "matmul_right",
          .lesson = 4,
          .title = "y = a b, a product of matrices: the gradient of b",
          .signature = "matmul_right(View<const T> dy, View<const T> a, View<T> db)",
          .setups = products,
          .forward = [](V v) { return matmul(v["a"], v["b"]); },
          .faults = {{"db", "a factor is not transposed: this is a dy, and db = a^T dy",
                      [](V v) { return matmul(v["a"], v["dy"]); }},
                     {"db", "the factors are in the wrong order: this is dy a^T, and db = a^T dy",
                      [](V v) { return matmul(v["dy"], turned(v["a"])); }},
                     {"db", "the factors are in the wrong order: this is dy a, and db = a^T dy",
                      [](V v) { return matmul(v["dy"], v["a"]); }},
                     {"db",
                      "the sum over the rows (the batch) is missing: '=' in the innermost loop "
                      "keeps the last row's term; '+=' adds",
                      [](V v) {
                        const int64_t last = v["dy"].extent(0) - 1;
                        return matmul(turned(slice(v["a"], 0, last, last + 1)),
                                      slice(v["dy"], 0, last, last + 1));
                      }}}};
}

// Labels that are not all the same.
void draw_labels(Values& v, uint64_t seed) {
  const int64_t rows = v["logits"].extent(0), classes = v["logits"].extent(1);
  std::vector<double> labels;
  for (int64_t i = 0; i < rows; ++i) {
    labels.push_back(static_cast<double>((2 * i + static_cast<int64_t>(seed)) % classes));
  }
  v.set("labels", from_vector(labels, {rows}, {.dtype = DType::i64, .device = reference_device}));
  if (v.has("scale")) v.set("logits", v["logits"] * v.number("scale"));
}

Exercise cross_entropy_backward() {
  const auto per_row = [](V v) { return 1.0 / static_cast<double>(v["logits"].extent(0)); };
  const auto target = [](V v) { return one_hot(v["labels"], v["logits"].extent(1), DType::f64); };
  return {
      .name = "cross_entropy",
      .lesson = 10,
      .title = "L = the mean over the rows of -log softmax(logits)[label]",
      .signature =
          "cross_entropy_backward(View<const T> logits, View<const int> labels, "
          "View<T> dlogits)",
      .setups = {{"2 rows, 3 classes", {{"logits", {2, 3}}}},
                 {"5 rows, 4 classes", {{"logits", {5, 4}}}},
                 {"3 rows, large logits", {{"logits", {3, 4}}}, {{"scale", 900.0}}}},
      .prepare = draw_labels,
      .forward = [](V v) { return cross_entropy(v["logits"], v["labels"]); },
      .faults = {
          {"dlogits", "the label is missing: 1 is subtracted where the column is the row's label",
           [=](V v) { return softmax(v["logits"]) * per_row(v); }},
          {"dlogits", "1 is subtracted from each column, not from that of the row's label alone",
           [=](V v) { return (softmax(v["logits"]) - 1.0) * per_row(v); }},
          {"dlogits", "the softmax is missing: the probabilities, not the logits, are compared",
           [=](V v) { return (v["logits"] - target(v)) * per_row(v); }},
          {"dlogits", "the softmax is over the columns' axis 0: each row is one distribution",
           [=](V v) { return (softmax(v["logits"], 0) - target(v)) * per_row(v); }},
          {"dlogits", "only the column of the label gets a gradient; all classes do",
           [=](V v) { return (softmax(v["logits"]) - 1.0) * target(v) * per_row(v); }}}};
}

// One step of Adam (Kingma and Ba 2015, algorithm 1); `fault` leaves out a part.
struct AdamFault {
  bool uncorrected = false, epsilon_inside = false, unsquared = false, whole_gradient = false,
       plus = false, old_moments = false;
};
Tensor adam(V v, std::string_view result, AdamFault fault) {
  const double beta1 = v.number("beta1"), beta2 = v.number("beta2"), step = v.number("step");
  const Tensor& g = v["g"];
  const Tensor m = beta1 * v["m"] + (fault.whole_gradient ? 1 : 1 - beta1) * g;
  const Tensor s = beta2 * v["v"] + (1 - beta2) * (fault.unsquared ? abs(g) : g * g);
  if (result == "new_m") return m;
  if (result == "new_v") return s;
  const bool corrects = !fault.uncorrected;
  const Tensor m_hat =
      (fault.old_moments ? v["m"] : m) * (corrects ? 1 / (1 - std::pow(beta1, step)) : 1.0);
  const Tensor v_hat =
      (fault.old_moments ? v["v"] : s) * (corrects ? 1 / (1 - std::pow(beta2, step)) : 1.0);
  const double epsilon = v.number("eps");
  const Tensor root = fault.epsilon_inside ? sqrt(v_hat + epsilon) : sqrt(v_hat) + epsilon;
  return v["w"] + m_hat / root * ((fault.plus ? 1 : -1) * v.number("lr"));
}

Exercise adam_step() {
  const auto with = [](std::string_view result, AdamFault fault) {
    return [=](V v) { return adam(v, result, fault); };
  };
  const Shape three = {3}, matrix = {2, 4};
  const auto setup = [](std::string_view says, const Shape& shape, double step) {
    return Setup{says,
                 {{"w", shape}, {"g", shape}, {"m", shape}, {"v", shape}},
                 {{"lr", 0.1}, {"beta1", 0.9}, {"beta2", 0.99}, {"eps", 0.05}, {"step", step}}};
  };
  return {
      .name = "adam_step",
      .lesson = 10,
      .title = "one step of Adam, with its bias correction",
      .signature =
          "adam_step(View<const T> w, View<const T> g, View<const T> m, View<const T> v, "
          "T lr, T beta1, T beta2, T eps, int step, View<T> new_w, View<T> new_m, "
          "View<T> new_v)",
      .setups = {setup("3 weights, step 1", three, 1), setup("2 x 4 weights, step 7", matrix, 7)},
      .prepare = [](Values& v,
                    uint64_t) { v.set("v", v["v"] * v["v"] + 0.1); },  // a mean of squares
      .expected = [](V v, std::string_view result) { return adam(v, result, {}); },
      .faults = {{"new_w",
                  "the bias correction is missing: m / (1 - beta1^step), v / (1 - beta2^step)",
                  with("new_w", {.uncorrected = true})},
                 {"new_w", "eps stands inside the root: it is sqrt(v) + eps",
                  with("new_w", {.epsilon_inside = true})},
                 {"new_w", "it goes uphill: the step is subtracted", with("new_w", {.plus = true})},
                 {"new_w", "it uses the old m and v; the new ones hold this step's gradient",
                  with("new_w", {.old_moments = true})},
                 {"new_v", "the gradient is not squared in v", with("new_v", {.unsquared = true})},
                 {"new_m", "the factor 1 - beta1 of the gradient is missing in m",
                  with("new_m", {.whole_gradient = true})}}};
}

}  // namespace

std::vector<Exercise> matrix_exercises() {
  return {mean_backward(), add_broadcast(),          power_backward(), matmul_left(),
          matmul_right(),  cross_entropy_backward(), adam_step()};
}

}  // namespace whisker
