// Reductions over every choice of axes, argmax, sum_to and sum_products_to.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <cmath>

namespace whisker::test {
namespace {

/// The elements that each result sees, in order.
std::vector<Values> groups_of(const Values& x, const Shape& shape, const Axes& axes) {
  Shape kept = shape;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axes.empty() || std::count(axes.begin(), axes.end(), axis) > 0 ||
        std::count(axes.begin(), axes.end(), axis - shape.rank()) > 0) {
      kept = kept.with(axis, 1);
    }
  }
  std::vector<Values> groups(static_cast<size_t>(kept.count()));
  for (int64_t i = 0; i < shape.count(); ++i) {
    const int64_t group = position_of(index_of(i, shape), kept);
    groups[static_cast<size_t>(group)].push_back(x[static_cast<size_t>(i)]);
  }
  return groups;
}

double plain_sum(const Values& v) {
  double sum = 0;
  for (const double value : v) sum += value;
  return sum;
}
double plain_mean(const Values& v) {
  return plain_sum(v) / static_cast<double>(v.size());
}
double plain_squares(const Values& v) {
  double sum = 0;
  for (const double value : v) sum += (value - plain_mean(v)) * (value - plain_mean(v));
  return sum;
}

struct Reduction {
  const char* name;
  Tensor (*op)(const Tensor&, const Axes&, ReduceOptions);
  double (*plain)(const Values&);
  bool empty = false;  // defined over no elements
};

struct Case {
  Shape shape;
  Axes axes;
  const char* axes_tag;
  bool keep = false;
};

OpCase reduction_row(const Reduction& f, const Case& c) {
  return {
      .name = fmt::format("{}_{}_{}{}", f.name, tag(c.shape), c.axes_tag, c.keep ? "_kept" : ""),
      .inputs = {variable(c.shape)},
      .op = [f, c](Inputs x) { return f.op(x[0], c.axes, {.keep_axes = c.keep}); },
      .expected =
          [f, c](Plain x) {
            Values y;
            for (const Values& group : groups_of(x[0], c.shape, c.axes)) {
              y.push_back(f.plain(group));
            }
            return y;
          },
      .terms = c.shape.count(),
      .scale = 0.5};
}

/// h (N,H,W,C) = 2 x, read by global means and by other operators: their gradients add up, in each
/// order, in memory that is the sum's alone, that others read, or that is x's own.
std::vector<OpCase> gated_rows() {
  struct Gated {
    const char* name;
    bool interior;  // else h is x itself
    Tensor (*op)(const Tensor& h, const Tensor& mean);
    double (*plain)(double h, double mean, double mean_of_all);
  };
  const Gated gated[] = {
      {"gate", true, [](const Tensor& h, const Tensor& m) { return mul(h, m); },
       [](double h, double m, double) { return h * m; }},
      {"gate_of_a_leaf", false, [](const Tensor& h, const Tensor& m) { return mul(h, m); },
       [](double h, double m, double) { return h * m; }},
      {"alone", true,
       [](const Tensor& h, const Tensor& m) { return mul(broadcast_to(m, h.shape()), m); },
       [](double, double m, double) { return m * m; }},
      {"twice", true,
       [](const Tensor& h, const Tensor& m) {
         return mul(h, add(m, mean(h, {}, {.keep_axes = true})));
       },
       [](double h, double m, double all) { return h * (m + all); }},
      // The sum's gradient goes to h as it is, and to the product.
      {"gate_and_shortcut", true,
       [](const Tensor& h, const Tensor& m) { return add(h, mul(h, m)); },
       [](double h, double m, double) { return h + h * m; }},
      {"summed_before", true,
       [](const Tensor& h, const Tensor& m) {
         const Tensor square = mul(h, h);
         return mul(square, add(m, sum(h, {0, 1, 2, 3}, {.keep_axes = true})));
       },
       [](double h, double m, double all) { return h * h * (m + all * 96); }},
  };
  std::vector<OpCase> rows;
  for (const Gated& f : gated) {
    for (const Shape& shape : {Shape{2, 3, 2, 8}, {4, 2, 4, 3}}) {
      rows.push_back({.name = fmt::format("mean_{}_{}", f.name, tag(shape)),
                      .inputs = {variable(shape)},
                      .op =
                          [f](Inputs x) {
                            const Tensor h = f.interior ? affine(x[0], 2, 0) : x[0];
                            return f.op(h, mean(h, {1, 2}, {.keep_axes = true}));
                          },
                      .expected =
                          [f, shape](Plain x) {
                            Values h = x[0];
                            if (f.interior) {
                              for (double& value : h) value *= 2;
                            }
                            const Shape pooled{shape[0], 1, 1, shape[3]};
                            Values means;
                            for (const Values& group : groups_of(h, shape, {1, 2})) {
                              means.push_back(plain_mean(group));
                            }
                            const Values mean = spread(means, pooled, shape);
                            const double all = plain_mean(h);
                            for (size_t i = 0; i < h.size(); ++i)
                              h[i] = f.plain(h[i], mean[i], all);
                            return h;
                          },
                      .terms = shape.count()});
    }
  }
  return rows;
}

}  // namespace

std::vector<OpCase> reduction_rows() {
  const Reduction reductions[] = {
      {"sum", sum, plain_sum, true},
      {"mean", mean, plain_mean},
      {"max", max, [](const Values& v) { return *std::max_element(v.begin(), v.end()); }},
      {"min", min, [](const Values& v) { return *std::min_element(v.begin(), v.end()); }},
      {"var", [](const Tensor& x, const Axes& axes, ReduceOptions o) { return var(x, axes, o, 1); },
       [](const Values& v) { return plain_squares(v) / static_cast<double>(v.size() - 1); }},
      {"var_biased",
       [](const Tensor& x, const Axes& axes, ReduceOptions o) { return var(x, axes, o, 0); },
       [](const Values& v) { return plain_squares(v) / static_cast<double>(v.size()); }},
  };
  const Case cases[] = {{{67}, {}, "all"},
                        {{3, 4, 5}, {}, "all"},
                        {{3, 4, 5}, {0}, "axis_0"},
                        {{3, 4, 5}, {1}, "axis_1", true},
                        {{3, 4, 5}, {-1}, "axis_last"},
                        {{3, 4, 5}, {0, 2}, "axes_0_2"},
                        {{2, 3, 1, 4, 3}, {1, 3}, "axes_1_3", true},
                        {{3, 4, 8}, {1}, "axis_1"},
                        {{9, 16}, {0}, "axis_0"},
                        {{5, 16}, {1}, "axis_1"},
                        {{0, 3}, {1}, "axis_1"}};
  std::vector<OpCase> rows;
  for (const Reduction& f : reductions) {
    for (const Case& c : cases) {
      const bool variance = std::string_view(f.name).starts_with("var");
      if (variance && c.shape.count() == 0) continue;  // refused: see bad_tensor_calls.cpp
      rows.push_back(reduction_row(f, c));
    }
    if (f.empty) rows.push_back(reduction_row(f, {{0, 3}, {0}, "axis_0"}));
    const bool sample = f.name == std::string_view("var");
    if (!sample) rows.push_back(reduction_row(f, {{1, 1}, {}, "all"}));
  }
  for (const auto& [shape, axis] : {std::pair<Shape, int>{{13}, 0}, {{3, 7, 5}, 1}, {{4, 9}, -1}}) {
    rows.push_back(
        {.name = fmt::format("argmax_{}", tag(shape)),
         .inputs = {constant(shape)},
         .op = [axis = axis](Inputs x) { return argmax(x[0], axis); },
         .expected =
             [shape = shape, axis = axis](Plain x) {
               Values y;
               for (const Values& v : groups_of(x[0], shape, {axis})) {
                 y.push_back(static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin()));
               }
               return y;
             },
         .twice = Twice::not_at_all});
  }
  for (const auto& [from, to] :
       {std::pair<Shape, Shape>{{4, 5}, {5}}, {{2, 3, 5}, {3, 1}}, {{3, 2}, {}}, {{7}, {7}}}) {
    rows.push_back({.name = fmt::format("sum_to_{}_from_{}", tag(to), tag(from)),
                    .inputs = {variable(from)},
                    .op = [to = to](Inputs x) { return sum_to(x[0], to); },
                    .expected =
                        [from = from, to = to](Plain x) {
                          Values y(static_cast<size_t>(to.count()));
                          for (int64_t i = 0; i < from.count(); ++i) {
                            y[static_cast<size_t>(position_of(index_of(i, from), to))] +=
                                x[0][static_cast<size_t>(i)];
                          }
                          return y;
                        },
                    .terms = from.count()});
  }
  // Kept channels in packs and not, kept rows, everything; no elements; then what is no sum of one
  // shape's products: nothing to sum, and operands that broadcast.
  struct ProductShapes {
    Shape a, b, to;
  };
  const Shape image{2, 3, 2, 8};
  for (const auto& [a, b, to] : {ProductShapes{image, image, {2, 1, 1, 8}},
                                 {image, image, {8}},
                                 {image, image, {2, 3, 2, 1}},
                                 {image, image, {}},
                                 {{2, 3, 5}, {2, 3, 5}, {3, 1}},
                                 {{2, 9, 16}, {2, 9, 16}, {2, 1, 16}},
                                 {{0, 3}, {0, 3}, {3}},
                                 {{4, 5}, {4, 5}, {4, 5}},
                                 {{4, 1, 5}, {3, 1}, {5}}}) {
    const Shape product = broadcast_shapes(a, b, "products");
    rows.push_back(
        {.name = fmt::format("sum_products_to_{}_from_{}_and_{}", tag(to), tag(a), tag(b)),
         .inputs = {variable(a), variable(b, 0.5, 2)},
         .op = [to = to](Inputs x) { return sum_products_to(x[0], x[1], to); },
         .expected =
             [a = a, b = b, to = to, product](Plain x) {
               Values y(static_cast<size_t>(to.count()));
               const Values left = spread(x[0], a, product);
               const Values right = spread(x[1], b, product);
               for (int64_t i = 0; i < product.count(); ++i) {
                 const auto at = static_cast<size_t>(i);
                 y[static_cast<size_t>(position_of(index_of(i, product), to))] +=
                     left[at] * right[at];
               }
               return y;
             },
         .terms = product.count()});
  }
  append(rows, gated_rows());
  return rows;
}

}  // namespace whisker::test
