// Softmax along any axis and the losses, from their definitions (inputs are small: no overflow).
#include "tests/core/ops/op_table/rows.h"

#include <cmath>

namespace whisker::test {
namespace {

/// log softmax of row r of (rows, classes) at class c.
double plain_log_softmax(const Values& x, size_t classes, size_t r, size_t c) {
  double sum = 0;
  for (size_t k = 0; k < classes; ++k) sum += std::exp(x[r * classes + k]);
  return x[r * classes + c] - std::log(sum);
}

std::vector<OpCase> softmax_rows() {
  struct Case {
    Shape shape;
    int axis;
    size_t outer, classes, inner;
  };
  const Case cases[] = {{{5, 7}, -1, 5, 7, 1},
                        {{1, 1}, 1, 1, 1, 1},
                        {{3, 19, 4}, 1, 3, 19, 4},
                        {{6}, 0, 1, 6, 1},
                        {{0, 4}, 1, 0, 4, 1}};
  std::vector<OpCase> rows;
  for (const Case& s : cases) {
    for (const bool log : {false, true}) {
      rows.push_back(
          {.name = fmt::format("{}softmax_{}_axis_{}", log ? "log_" : "", tag(s.shape),
                               s.axis < 0 ? "last" : std::to_string(s.axis)),
           .inputs = {variable(s.shape, -4, 4)},
           .op = [s, log](
                     Inputs x) { return log ? log_softmax(x[0], s.axis) : softmax(x[0], s.axis); },
           .expected =
               [s, log](Plain x) {
                 Values y(x[0].size());
                 for (size_t i = 0; i < y.size(); ++i) {
                   const size_t first =
                       i / (s.classes * s.inner) * s.classes * s.inner + i % s.inner;
                   double sum = 0;
                   for (size_t k = 0; k < s.classes; ++k)
                     sum += std::exp(x[0][first + k * s.inner]);
                   y[i] = log ? x[0][i] - std::log(sum) : std::exp(x[0][i]) / sum;
                 }
                 return y;
               },
           .twice = Twice::refused,
           .terms = static_cast<int64_t>(s.classes),
           .scale = 1});
    }
  }
  return rows;
}

std::vector<OpCase> cross_entropy_rows() {
  struct Case {
    const char* name;
    size_t rows, classes;
    bool soft, weighted;
    double smoothing;
  };
  const Case cases[] = {{"hard", 5, 4, false, false, 0},
                        {"one_row_one_class", 1, 1, false, false, 0},
                        {"smoothed", 6, 3, false, false, 0.1},
                        {"weighted", 7, 3, false, true, 0},
                        {"weighted_smoothed", 4, 5, false, true, 0.2},
                        {"soft", 5, 3, true, false, 0},
                        {"soft_weighted_smoothed", 3, 4, true, true, 0.3},
                        {"1000_classes", 2, 1000, false, false, 0}};
  std::vector<OpCase> rows;
  for (const Case& s : cases) {
    const auto row_count = static_cast<int64_t>(s.rows);
    const auto classes = static_cast<int64_t>(s.classes);
    std::vector<Input> inputs{variable({row_count, classes}, -3, 3)};
    inputs.push_back(s.soft ? constant({row_count, classes}, 0, 1) : index({row_count}, classes));
    if (s.weighted) inputs.push_back(constant({classes}, 0.25, 2));
    rows.push_back(
        {.name = fmt::format("cross_entropy_{}", s.name),
         .inputs = inputs,
         .op =
             [s](Inputs x) {
               return cross_entropy(
                   x[0], x[1],
                   {.label_smoothing = s.smoothing, .class_weight = s.weighted ? x[2] : Tensor()});
             },
         .expected = [s](Plain x) -> Values {
           const auto weight = [&](size_t c) { return s.weighted ? x[2][c] : 1.0; };
           double total = 0, divisor = 0;
           for (size_t r = 0; r < s.rows; ++r) {
             const auto label = static_cast<size_t>(s.soft ? 0 : x[1][r]);
             for (size_t c = 0; c < s.classes; ++c) {
               double target = s.soft ? x[1][r * s.classes + c] : (c == label ? 1.0 : 0.0);
               target = target * (1 - s.smoothing) + s.smoothing / static_cast<double>(s.classes);
               total -= weight(c) * target * plain_log_softmax(x[0], s.classes, r, c);
             }
             divisor += s.soft ? 1 : weight(label);
           }
           return {total / divisor};
         },
         .twice = Twice::refused,
         .terms = row_count * classes,
         .scale = 1});
  }
  return rows;
}

}  // namespace

std::vector<OpCase> loss_rows() {
  std::vector<OpCase> rows = softmax_rows();
  append(rows, cross_entropy_rows());
  for (const Shape& shape : {Shape{1, 1}, Shape{13}, Shape{5, 3}}) {
    rows.push_back({.name = fmt::format("binary_cross_entropy_with_logits_{}", tag(shape)),
                    .inputs = {variable(shape, -4, 4), constant(shape, 0, 1)},
                    .op = [](Inputs x) { return binary_cross_entropy_with_logits(x[0], x[1]); },
                    .expected = [](Plain x) -> Values {
                      double total = 0;
                      for (size_t i = 0; i < x[0].size(); ++i) {
                        const double p = 1 / (1 + std::exp(-x[0][i]));
                        total -= x[1][i] * std::log(p) + (1 - x[1][i]) * std::log(1 - p);
                      }
                      return {total / static_cast<double>(x[0].size())};
                    },
                    .twice = Twice::refused,
                    .terms = shape.count(),
                    .scale = 1});
    rows.push_back({.name = fmt::format("mse_loss_{}", tag(shape)),
                    .inputs = {variable(shape, -4, 4), variable(shape, -3, 4)},
                    .op = [](Inputs x) { return mse_loss(x[0], x[1]); },
                    .expected = [](Plain x) -> Values {
                      double total = 0;
                      for (size_t i = 0; i < x[0].size(); ++i) {
                        total += (x[0][i] - x[1][i]) * (x[0][i] - x[1][i]);
                      }
                      return {total / static_cast<double>(x[0].size())};
                    },
                    .terms = shape.count(),
                    .scale = 4});
  }
  return rows;
}

}  // namespace whisker::test
