// The loops of products: matrices, dense layers, windows over images.
#include "core/trace/op_terms.h"

#include <algorithm>
#include <utility>

namespace whisker {
namespace {

// A bias of one element for each column of y, `rows_and_columns`.
OpTermList with_bias(const OpShapes& op, OpTerms products, const Shape& rows_and_columns) {
  OpTermList all = {std::move(products)};
  if (!op.operands[2]) return all;
  OpTerms bias;
  const LoopCoordinates y = bias.loops.loops_over(rows_and_columns);
  bias.loops.set(0, y);
  bias.loops.set(3, {y[1]});
  all.push_back(std::move(bias));
  return all;
}

}  // namespace

OpTermList matmul_terms(const OpShapes& op) {
  if (!op.operands[0] || !op.operands[1] || op.y.rank() < 2) return {};
  const Shape &a = *op.operands[0], &b = *op.operands[1];
  if (a.rank() < 2 || b.rank() < 2 || a.rank() > op.y.rank() || b.rank() > op.y.rank()) return {};
  const std::vector<double> transposed = op.entry.attribute("transpose");
  const auto is_transposed = [&](double operand) {
    return std::find(transposed.begin(), transposed.end(), operand) != transposed.end();
  };
  const bool a_turned = is_transposed(0), b_turned = is_transposed(1);
  const int64_t k = a[a_turned ? -2 : -1];
  if (a[a_turned ? -1 : -2] != op.y[-2] || b[b_turned ? -1 : -2] != k ||
      b[b_turned ? -2 : -1] != op.y[-1]) {
    return {};
  }
  OpTerms terms;
  const LoopCoordinates y = terms.loops.loops_over(op.y);
  const LoopCoordinate i = y[y.size() - 2], j = y[y.size() - 1];
  const LoopCoordinate t{k, {{terms.loops.loop(k), 1}}, 0};
  const auto operand = [&](size_t tensor, const Shape& shape, bool turned, LoopCoordinate row,
                           LoopCoordinate column) {
    const auto batches = [](const Shape& whole) {
      return Shape(whole.extents().first(static_cast<size_t>(whole.rank() - 2)));
    };
    std::optional<LoopCoordinates> own = broadcast_coordinates(
        batches(shape), batches(op.y), LoopCoordinates(y.begin(), y.end() - 2));
    if (!own) return false;
    if (turned) std::swap(row, column);
    own->push_back(row);
    own->push_back(column);
    terms.loops.set(tensor, *own);
    return true;
  };
  terms.loops.set(0, y);
  if (!operand(1, a, a_turned, i, t) || !operand(2, b, b_turned, t, j)) return {};
  return {terms};
}

OpTermList linear_terms(const OpShapes& op) {
  if (!op.operands[0] || !op.operands[1] || op.operands[1]->rank() != 2) return {};
  const int64_t out = (*op.operands[1])[0], in = (*op.operands[1])[1];
  if (out * in == 0 || op.y.count() % out != 0) return {};
  const int64_t rows = op.y.count() / out;
  if (op.operands[0]->count() != rows * in || (op.operands[2] && op.operands[2]->count() != out))
    return {};
  OpTerms products;
  const LoopCoordinates all = products.loops.loops_over({rows, out, in});
  products.loops.set(0, {all[0], all[1]});
  products.loops.set(1, {all[0], all[2]});
  products.loops.set(2, {all[1], all[2]});
  return with_bias(op, std::move(products), {rows, out});
}

OpTermList convolution_terms(const OpShapes& op) {
  const auto pair = [&](std::string_view name, int64_t low) {
    return integers_of(op.entry, name, 2, low, most_recorded_values);
  };
  const std::vector<int64_t> kernel = pair("kernel", 1), stride = pair("stride", 1),
                             padding = pair("padding", 0), dilation = pair("dilation", 1),
                             groups = integers_of(op.entry, "groups", 1, 1, int64_t{1} << 30);
  if (kernel.empty() || stride.empty() || padding.empty() || dilation.empty() || groups.empty() ||
      !op.operands[0] || !op.operands[1] || op.operands[0]->rank() != 4 || op.y.rank() != 4) {
    return {};
  }
  const Shape& x = *op.operands[0];
  const int64_t per_group = x[3] / groups[0], filters = op.y[3] / groups[0];
  if (x[0] != op.y[0] || per_group * groups[0] != x[3] || filters * groups[0] != op.y[3] ||
      !(*op.operands[1] == Shape{op.y[3], kernel[0], kernel[1], per_group}) ||
      (op.operands[2] && op.operands[2]->count() != op.y[3])) {
    return {};
  }
  OpTerms products;
  TermLoops& loops = products.loops;
  const size_t n = loops.loop(op.y[0]), i = loops.loop(op.y[1]), j = loops.loop(op.y[2]),
               g = loops.loop(groups[0]), f = loops.loop(filters), r = loops.loop(kernel[0]),
               s = loops.loop(kernel[1]), c = loops.loop(per_group);
  const LoopCoordinate filter{op.y[3], {{g, filters}, {f, 1}}, 0};
  loops.set(0, {{op.y[0], {{n, 1}}, 0}, {op.y[1], {{i, 1}}, 0}, {op.y[2], {{j, 1}}, 0}, filter});
  loops.set(1, {{x[0], {{n, 1}}, 0},
                {x[1], {{i, stride[0]}, {r, dilation[0]}}, -padding[0]},
                {x[2], {{j, stride[1]}, {s, dilation[1]}}, -padding[1]},
                {x[3], {{g, per_group}, {c, 1}}, 0}});
  loops.set(2,
            {filter, {kernel[0], {{r, 1}}, 0}, {kernel[1], {{s, 1}}, 0}, {per_group, {{c, 1}}, 0}});
  return with_bias(op, std::move(products), {op.y.count() / op.y[3], op.y[3]});
}

bool windows_fit(const TapeEntry& attributes, const Shape& x, const Shape& y) {
  const auto has = [&](std::string_view name, int64_t low) {
    return !integers_of(attributes, name, 2, low, most_recorded_values).empty();
  };
  return has("kernel", 1) && has("stride", 1) && has("padding", 0) && x.rank() == 4 &&
         y.rank() == 4 && x[0] == y[0] && x[3] == y[3];
}

OpTerms window_terms(const TapeEntry& attributes, const Shape& x, const Shape& y) {
  const auto pair = [&](std::string_view name) {
    return integers_of(attributes, name, 2, 0, most_recorded_values);
  };
  const std::vector<int64_t> kernel = pair("kernel"), stride = pair("stride"),
                             padding = pair("padding");
  OpTerms terms;
  const LoopCoordinates at = terms.loops.loops_over(y);
  const size_t r = terms.loops.loop(kernel[0]), s = terms.loops.loop(kernel[1]);
  const auto within = [&](size_t axis, size_t inner) {
    return LoopCoordinate{x[static_cast<int>(axis)],
                          {{at[axis].terms[0].first, stride[axis - 1]}, {inner, 1}},
                          -padding[axis - 1]};
  };
  terms.loops.set(0, at);
  terms.loops.set(1, {at[0], within(1, r), within(2, s), at[3]});
  return terms;
}

OpTermList pooling_terms(const OpShapes& op) {
  if (!op.operands[0] || !windows_fit(op.entry, *op.operands[0], op.y)) return {};
  return {window_terms(op.entry, *op.operands[0], op.y)};
}

}  // namespace whisker
