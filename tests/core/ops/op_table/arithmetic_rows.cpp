// Arithmetic with broadcasting on either side, comparisons, and where.
#include "tests/core/ops/op_table/rows.h"

#include <cmath>

namespace whisker::test {
namespace {

struct ShapePair {
  Shape a, b, out;
};

const std::vector<ShapePair>& shape_pairs() {
  static const std::vector<ShapePair> pairs{{{7}, {7}, {7}},
                                            {{1}, {1}, {1}},
                                            {{2, 3, 5}, {5}, {2, 3, 5}},
                                            {{2, 3, 1}, {1, 3, 5}, {2, 3, 5}},
                                            {{}, {3, 11}, {3, 11}},
                                            {{2, 1, 3, 1}, {5, 1, 4}, {2, 5, 3, 4}},
                                            {{0, 3}, {1, 3}, {0, 3}},
                                            {{67}, {67}, {67}},
                                            {{2, 3, 3, 8}, {2, 1, 1, 8}, {2, 3, 3, 8}},
                                            {{2, 3, 2, 8}, {2, 1, 1, 1}, {2, 3, 2, 8}},
                                            {{2, 3, 2, 8}, {1, 3, 2, 1}, {2, 3, 2, 8}},
                                            {{2, 3, 2, 5}, {2, 1, 1, 5}, {2, 3, 2, 5}},
                                            {{2, 1, 1}, {3, 16}, {2, 3, 16}},
                                            {{2, 1, 8}, {3, 1}, {2, 3, 8}}};
  return pairs;
}

struct Binary {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  double (*plain)(double, double);
  double low = -0.93, high = 1.04;  // of b: other values than a's, so that no pair ties
};

std::vector<OpCase> binary_rows() {
  const Binary operators[] = {
      {"add", add, [](double a, double b) { return a + b; }},
      {"sub", sub, [](double a, double b) { return a - b; }},
      {"mul", mul, [](double a, double b) { return a * b; }},
      {"div", div, [](double a, double b) { return a / b; }, 0.5, 2},
      {"maximum", maximum, [](double a, double b) { return a > b ? a : b; }},
      {"minimum", minimum, [](double a, double b) { return a < b ? a : b; }},
  };
  std::vector<OpCase> rows;
  for (const Binary& f : operators) {
    for (const ShapePair& s : shape_pairs()) {
      rows.push_back({.name = fmt::format("{}_{}_and_{}", f.name, tag(s.a), tag(s.b)),
                      .inputs = {variable(s.a), variable(s.b, f.low, f.high)},
                      .op = [f](Inputs x) { return f.op(x[0], x[1]); },
                      .expected =
                          [f, s](Plain x) {
                            Values y = spread(x[0], s.a, s.out);
                            const Values b = spread(x[1], s.b, s.out);
                            for (size_t i = 0; i < y.size(); ++i) y[i] = f.plain(y[i], b[i]);
                            return y;
                          },
                      .terms = s.out.count()});
    }
  }
  return rows;
}

struct Comparison {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  bool (*plain)(double, double);
};

std::vector<OpCase> comparison_rows() {
  const Comparison operators[] = {
      {"equal", equal, [](double a, double b) { return a == b; }},
      {"not_equal", not_equal, [](double a, double b) { return a != b; }},
      {"less", less, [](double a, double b) { return a < b; }},
      {"less_equal", less_equal, [](double a, double b) { return a <= b; }},
      {"greater", greater, [](double a, double b) { return a > b; }},
      {"greater_equal", greater_equal, [](double a, double b) { return a >= b; }},
  };
  std::vector<OpCase> rows;
  for (const Comparison& f : operators) {
    for (const ShapePair& s : shape_pairs()) {
      for (const bool integers : {false, true}) {
        // Few distinct values, so that some are equal.
        const auto input = [&](const Shape& shape) {
          return integers ? index(shape, 3) : constant(shape, -1, 1);
        };
        rows.push_back({.name = fmt::format("{}_{}_and_{}{}", f.name, tag(s.a), tag(s.b),
                                            integers ? "_i64" : ""),
                        .inputs = {input(s.a), input(s.b)},
                        .op = [f](Inputs x) { return f.op(x[0], x[1]); },
                        .expected =
                            [f, s](Plain x) {
                              Values y = spread(x[0], s.a, s.out);
                              const Values b = spread(x[1], s.b, s.out);
                              for (size_t i = 0; i < y.size(); ++i) y[i] = f.plain(y[i], b[i]);
                              return y;
                            },
                        .twice = Twice::not_at_all});
      }
    }
  }
  return rows;
}

std::vector<OpCase> where_rows() {
  struct Case {
    Shape condition, a, b, out;
  };
  std::vector<OpCase> rows;
  for (const Case& s : {Case{{9}, {9}, {9}, {9}}, Case{{2, 1}, {3}, {1, 3}, {2, 3}},
                        Case{{2, 5}, {}, {2, 5}, {2, 5}}, Case{{0}, {1}, {0}, {0}}}) {
    rows.push_back({.name = fmt::format("where_{}_{}_{}", tag(s.condition), tag(s.a), tag(s.b)),
                    .inputs = {mask(s.condition), variable(s.a), variable(s.b)},
                    .op = [](Inputs x) { return where(x[0], x[1], x[2]); },
                    .expected =
                        [s](Plain x) {
                          const Values choose = spread(x[0], s.condition, s.out);
                          const Values a = spread(x[1], s.a, s.out);
                          Values y = spread(x[2], s.b, s.out);
                          for (size_t i = 0; i < y.size(); ++i) {
                            if (choose[i] != 0) y[i] = a[i];
                          }
                          return y;
                        },
                    .terms = 10});
  }
  return rows;
}

}  // namespace

std::vector<OpCase> arithmetic_rows() {
  std::vector<OpCase> rows = binary_rows();
  append(rows, comparison_rows());
  append(rows, where_rows());
  return rows;
}

}  // namespace whisker::test
