// Operators that move elements: every result element is named by where it comes from.
#include "tests/core/op_table/rows.h"

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

std::vector<OpCase> moving_rows() {
  const Shape x{3, 4, 5};
  std::vector<OpCase> rows;
  rows.push_back(moving_row(
      "reshape_to_5x12", {3, 4, 5}, {3, 4, 5},
      [](Inputs t) {
        return reshape(reshape(t[0], {5, 12}), {3, 4, 5});
      },
      [](Index i) { return i; }));
  rows.push_back(moving_row(
      "transpose_120", x, {4, 5, 3},
      [](Inputs t) {
        return transpose(t[0], {1, 2, 0});
      },
      [](const Index& i) {
        return Index{i[2], i[0], i[1]};
      }));
  rows.push_back(moving_row(
      "transpose_negative_axes", x, {5, 4, 3},
      [](Inputs t) {
        return transpose(t[0], {-1, -2, -3});
      },
      [](const Index& i) {
        return Index{i[2], i[1], i[0]};
      }));
  rows.push_back(moving_row(
      "transpose_4_axes", {2, 3, 5, 7}, {2, 7, 3, 5},
      [](Inputs t) {
        return transpose(t[0], {0, 3, 1, 2});
      },
      [](const Index& i) {
        return Index{i[0], i[2], i[3], i[1]};
      }));
  rows.push_back(moving_row(
      "transpose_empty", {0, 4}, {4, 0},
      [](Inputs t) {
        return transpose(t[0], {1, 0});
      },
      [](const Index& i) {
        return Index{i[1], i[0]};
      }));
  rows.push_back(moving_row(
      "broadcast_to_2x3x5", {3, 1}, {2, 3, 5},
      [](Inputs t) {
        return broadcast_to(t[0], {2, 3, 5});
      },
      [](const Index& i) {
        return Index{i[1], 0};
      }));
  rows.push_back(moving_row(
      "slice_axis_0", x, {1, 4, 5}, [](Inputs t) { return slice(t[0], 0, 1, 2); },
      [](const Index& i) {
        return Index{1, i[1], i[2]};
      }));
  rows.push_back(moving_row(
      "slice_axis_1", x, {3, 2, 5}, [](Inputs t) { return slice(t[0], 1, 2, 4); },
      [](const Index& i) {
        return Index{i[0], i[1] + 2, i[2]};
      }));
  rows.push_back(moving_row(
      "slice_last_axis", x, {3, 4, 3}, [](Inputs t) { return slice(t[0], -1, 1, 4); },
      [](const Index& i) {
        return Index{i[0], i[1], i[2] + 1};
      }));
  rows.push_back(moving_row(
      "slice_nothing", x, {3, 0, 5}, [](Inputs t) { return slice(t[0], 1, 2, 2); },
      [](Index i) { return i; }));
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
