// Operators that move elements: every result element is named by where it comes from.
#include "tests/core/ops/op_table/rows.h"

#include <array>

namespace whisker::test {
namespace {

/// A row whose result element at each index is x[0] at source(index).
template <class Source>
OpCase moving_row(std::string name, const Shape& from, const Shape& to,
                  std::function<Tensor(Inputs)> op, Source source) {
  return {.name = std::move(name),
          .inputs = {variable(from)},
          .op = std::move(op),
          .expected = [=](Plain x) {
            Values y;
            for (int64_t i = 0; i < to.count(); ++i) {
              const Index at = source(index_of(i, to));
              y.push_back(x[0][static_cast<size_t>(position_of(at, from))]);
            }
            return y;
          }};
}

std::vector<OpCase> transpose_rows() {
  std::vector<OpCase> rows;
  const std::pair<Shape, std::vector<int>> cases[] = {{{3, 4, 5}, {1, 2, 0}},
                                                      {{3, 4, 5}, {-1, -2, -3}},
                                                      {{2, 3, 5, 7}, {0, 3, 1, 2}},
                                                      {{0, 4}, {1, 0}}};
  for (const auto& [from, order] : cases) {
    Index to;
    for (const int axis : order) to.push_back(from[axis]);
    const auto source = [order = order](const Index& i) {
      Index at(i.size());
      for (size_t axis = 0; axis < i.size(); ++axis) {
        const int moved = order[axis];
        at[static_cast<size_t>(moved) + (moved < 0 ? i.size() : 0)] = i[axis];
      }
      return at;
    };
    rows.push_back(moving_row(
        fmt::format("transpose_{}_to_{}", tag(from), fmt::join(to, "x")), from,
        Shape(std::span<const int64_t>(to)),
        [order = order](Inputs t) { return transpose(t[0], order); }, source));
  }
  return rows;
}

std::vector<OpCase> slice_rows() {
  struct SliceCase {
    int axis;
    int64_t begin, end;
  };
  const Shape x{3, 4, 5};
  std::vector<OpCase> rows;
  for (const auto& [axis, begin, end] : {SliceCase{0, 1, 2}, {1, 2, 4}, {-1, 1, 4}, {1, 2, 2}}) {
    const auto along = static_cast<size_t>(x.normalize_axis(axis, "slice"));
    rows.push_back(moving_row(
        fmt::format("slice_axis_{}_from_{}_to_{}", along, begin, end), x, x.with(axis, end - begin),
        [axis = axis, begin = begin, end = end](Inputs t) { return slice(t[0], axis, begin, end); },
        [along, begin = begin](Index i) {
          i[along] += begin;
          return i;
        }));
  }
  return rows;
}

std::vector<OpCase> moving_rows() {
  const Shape x{3, 4, 5};
  std::vector<OpCase> rows = transpose_rows();
  append(rows, slice_rows());
  rows.push_back(moving_row(
      "reshape_to_5x12", x, x,
      [x](Inputs t) {
        return reshape(t[0].reshape({5, 12}), x);
      },
      [](Index i) { return i; }));
  rows.push_back(moving_row(
      "cast_to_f64", x, x, [](Inputs t) { return cast(t[0], DType::f64); },
      [](Index i) { return i; }));
  rows.push_back(moving_row(
      "broadcast_to_2x3x5", {3, 1}, {2, 3, 5},
      [](Inputs t) {
        return broadcast_to(t[0], {2, 3, 5});
      },
      [](const Index& i) {
        return Index{i[1], 0};
      }));
  // Pieces of 1, 0 and 3, put together backwards.
  rows.push_back(moving_row(
      "split_and_concat", x, x,
      [](Inputs t) {
        const std::vector<Tensor> parts = split(t[0], std::array<int64_t, 3>{1, 0, 3}, 1);
        return concat({parts[2], parts[1], parts[0]}, 1);
      },
      [](const Index& i) {
        return Index{i[0], (i[1] + 1) % 4, i[2]};
      }));
  rows.push_back(moving_row(
      "split_axis_0", x, {2, 4, 5},
      [](Inputs t) {
        return split(t[0], std::array<int64_t, 2>{1, 2}, 0)[1];
      },
      [](const Index& i) {
        return Index{i[0] + 1, i[1], i[2]};
      }));
  return rows;
}

std::vector<OpCase> joining_rows() {
  std::vector<OpCase> rows;
  rows.push_back({.name = "concat_three_axis_1",
                  .inputs = {variable({2, 3, 2}), variable({2, 1, 2}), variable({2, 0, 2})},
                  .op =
                      [](Inputs x) {
                        return concat({x[0], x[1], x[2]}, 1);
                      },
                  .expected =
                      [](Plain x) {
                        Values y;
                        for (size_t row = 0; row < 2; ++row) {
                          for (size_t i = 0; i < 6; ++i) y.push_back(x[0][row * 6 + i]);
                          for (size_t i = 0; i < 2; ++i) y.push_back(x[1][row * 2 + i]);
                        }
                        return y;
                      }});
  rows.push_back({.name = "concat_the_same_twice_axis_0",
                  .inputs = {variable({3})},
                  .op =
                      [](Inputs x) {
                        return concat({x[0], x[0]}, 0);
                      },
                  .expected =
                      [](Plain x) {
                        Values y = x[0];
                        y.insert(y.end(), x[0].begin(), x[0].end());
                        return y;
                      }});
  rows.push_back({.name = "pad_with_value",
                  .inputs = {variable({2, 3})},
                  .op =
                      [](Inputs x) {
                        const std::pair<int64_t, int64_t> amounts[] = {{1, 0}, {0, 2}};
                        return pad(x[0], amounts, 0.5);
                      },
                  .expected =
                      [](Plain x) {
                        Values y(15, 0.5);
                        for (size_t i = 0; i < 6; ++i) y[(i / 3 + 1) * 5 + i % 3] = x[0][i];
                        return y;
                      }});
  return rows;
}

std::vector<OpCase> index_rows() {
  std::vector<OpCase> rows;
  rows.push_back({.name = "gather_axis_1",
                  .inputs = {variable({2, 5, 3}), index({2, 4, 3}, 5)},
                  .op = [](Inputs x) { return gather(x[0], 1, x[1]); },
                  .expected =
                      [](Plain x) {
                        Values y;
                        for (size_t i = 0; i < x[1].size(); ++i) {
                          const size_t from =
                              (i / 12 * 5 + static_cast<size_t>(x[1][i])) * 3 + i % 3;
                          y.push_back(x[0][from]);
                        }
                        return y;
                      },
                  .twice = Twice::refused,
                  .terms = 4});
  rows.push_back({.name = "gather_last_axis",
                  .inputs = {variable({6, 7}), index({6, 1}, 7)},
                  .op = [](Inputs x) { return gather(x[0], -1, x[1]); },
                  .expected =
                      [](Plain x) {
                        Values y;
                        for (size_t i = 0; i < 6; ++i) {
                          y.push_back(x[0][i * 7 + static_cast<size_t>(x[1][i])]);
                        }
                        return y;
                      },
                  .twice = Twice::refused});
  rows.push_back({.name = "embedding_2x9",
                  .inputs = {variable({5, 3}), index({2, 9}, 5)},
                  .op = [](Inputs x) { return embedding(x[0], x[1]); },
                  .expected =
                      [](Plain x) {
                        Values y;
                        for (const double row : x[1]) {
                          for (size_t f = 0; f < 3; ++f) {
                            y.push_back(x[0][static_cast<size_t>(row) * 3 + f]);
                          }
                        }
                        return y;
                      },
                  .twice = Twice::refused,
                  .terms = 18});
  rows.push_back({.name = "one_hot_2x4",
                  .inputs = {index({2, 4}, 6)},
                  .op = [](Inputs x) { return one_hot(x[0], 6); },
                  .expected =
                      [](Plain x) {
                        Values y;
                        for (const double label : x[0]) {
                          for (int c = 0; c < 6; ++c) y.push_back(label == c ? 1 : 0);
                        }
                        return y;
                      },
                  .twice = Twice::not_at_all});
  return rows;
}

}  // namespace

std::vector<OpCase> shape_rows() {
  std::vector<OpCase> rows = moving_rows();
  append(rows, joining_rows());
  append(rows, index_rows());
  return rows;
}

}  // namespace whisker::test
