// Which loops each operator has: those that go element by element, reductions, those that move
// elements. What an attribute makes of a position is bounded by the tensors' shapes in the loops.
#include "core/trace/op_terms.h"

#include "core/trace/op_links.h"

#include <algorithm>
#include <span>
#include <utility>

namespace whisker {
namespace {

// Boxes side by side along one axis: `whole` is made of, or cut into, the boxes.
OpTermList boxes(const OpShapes& op, const Shape& whole, std::span<const Shape> parts,
                 int64_t begin, bool cut) {
  const std::vector<int64_t> axis = integers_of(op.entry, "axis", 1, 0, whole.rank() - 1);
  if (axis.empty()) return {};
  const auto along = static_cast<int>(axis[0]);
  OpTermList all;
  for (const Shape& part : parts) {
    if (part.rank() != whole.rank() || !(part.with(along, 1) == whole.with(along, 1)) ||
        part[along] > whole[along] - begin) {
      return {};
    }
    OpTerms terms;
    LoopCoordinates own = terms.loops.loops_over(part);
    terms.loops.set(cut ? 0 : 1, own);
    own[static_cast<size_t>(along)].extent = whole[along];
    own[static_cast<size_t>(along)].offset = begin;
    terms.loops.set(cut ? 1 : 0, own);
    all.push_back(std::move(terms));
    begin += part[along];
  }
  return all;
}

// Where the indices are known and lie within the operand.
OpTermList indexed(const OpShapes& op, OpTerms terms, int64_t count) {
  if (op.entry.saved.empty() || op.entry.saved[0].shape.count() != count) return {};
  const RecordedValues& index = op.entry.saved[0].value;
  for (const double one : index.all) {
    if (!(one >= 0 && one < static_cast<double>(terms.indexed))) return {};
  }
  return index.readable() ? OpTermList{std::move(terms)} : OpTermList();
}

OpTermList elementwise_terms(const OpShapes& op) {  // operands broadcast
  OpTerms terms;
  const LoopCoordinates y = terms.loops.loops_over(op.y);
  terms.loops.set(0, y);
  for (size_t k = 0; k < op.operands.size(); ++k) {
    if (!op.operands[k]) continue;
    const std::optional<LoopCoordinates> own = broadcast_coordinates(*op.operands[k], op.y, y);
    if (!own) return {};
    terms.loops.set(1 + k, *own);
  }
  return {terms};
}

OpTermList same_order_terms(const OpShapes& op) {
  if (!op.operands[0] || op.operands[0]->count() != op.y.count()) return {};
  OpTerms terms;
  const LoopCoordinates flat = terms.loops.loops_over({op.y.count()});
  terms.loops.set(0, flat);
  terms.loops.set(1, flat);
  return {terms};
}

OpTermList to_scalar_terms(const OpShapes& op) {
  if (!op.operands[0] || op.y.count() != 1) return {};
  OpTerms terms;
  terms.loops.set(0, {});
  terms.loops.set(1, terms.loops.loops_over({op.operands[0]->count()}));
  return {terms};
}

OpTermList reduction_terms(const OpShapes& op) {
  if (!op.operands[0]) return {};
  const Shape& x = *op.operands[0];
  OpTerms terms;
  const LoopCoordinates all = terms.loops.loops_over(x);
  std::vector<bool> reduced(all.size(), false);
  for (const double axis : op.entry.attribute("axes")) {
    if (!(axis >= 0 && axis < x.rank())) return {};
    reduced[static_cast<size_t>(axis)] = true;
  }
  LoopCoordinates kept;
  int64_t count = 1;
  for (size_t axis = 0; axis < all.size(); ++axis) {
    if (reduced[axis]) continue;
    kept.push_back(all[axis]);
    count *= all[axis].extent;
  }
  if (count != op.y.count()) return {};
  terms.loops.set(0, kept);
  terms.loops.set(1, all);
  return {terms};
}

OpTermList sum_to_terms(
    const OpShapes& op) {  // operands of one shape, which broadcasts the result's
  if (!op.operands[0] || !op.operands[1] || !(*op.operands[0] == *op.operands[1])) return {};
  OpTerms terms;
  const LoopCoordinates x = terms.loops.loops_over(*op.operands[0]);
  const std::optional<LoopCoordinates> y = broadcast_coordinates(op.y, *op.operands[0], x);
  if (!y) return {};
  terms.loops.set(0, *y);
  terms.loops.set(1, x);
  terms.loops.set(2, x);
  return {terms};
}

OpTermList transpose_terms(const OpShapes& op) {
  const auto rank = static_cast<size_t>(op.y.rank());
  const std::vector<int64_t> order =
      integers_of(op.entry, "order", rank, -op.y.rank(), op.y.rank() - 1);
  if (!op.operands[0] || order.empty() || op.operands[0]->rank() != op.y.rank()) return {};
  OpTerms terms;
  const LoopCoordinates y = terms.loops.loops_over(op.y);
  LoopCoordinates x(rank, LoopCoordinate{.extent = 0});
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto from =
        static_cast<size_t>(order[axis] < 0 ? order[axis] + op.y.rank() : order[axis]);
    if (x[from].extent != 0 || (*op.operands[0])[static_cast<int>(from)] != y[axis].extent)
      return {};
    x[from] = y[axis];
  }
  terms.loops.set(0, y);
  terms.loops.set(1, x);
  return {terms};
}

OpTermList concat_terms(const OpShapes& op) {
  std::vector<Shape> parts;
  for (size_t i = 0; i < op.entry.inputs.size(); ++i) {
    const TapeOutput* part = operand_at(op.recording, op.entry, i);
    if (!part) return {};
    parts.push_back(part->shape);
  }
  OpTermList all = boxes(op, op.y, parts, 0, false);
  for (size_t k = 0; k < all.size(); ++k) all[k].first_position = k;
  return all;
}

OpTermList split_terms(const OpShapes& op) {
  if (!op.operands[0]) return {};
  std::vector<Shape> parts;
  for (const TapeOutput& output : op.entry.outputs) parts.push_back(output.shape);
  OpTermList all = boxes(op, *op.operands[0], parts, 0, true);
  for (size_t k = 0; k < all.size(); ++k) all[k].output = k;
  return all;
}

OpTermList slice_terms(const OpShapes& op) {
  if (!op.operands[0]) return {};
  const std::vector<int64_t> begin = integers_of(op.entry, "begin", 1, 0, op.operands[0]->count());
  return begin.empty() ? OpTermList() : boxes(op, *op.operands[0], {&op.y, 1}, begin[0], true);
}

OpTermList pad_terms(const OpShapes& op) {
  if (!op.operands[0] || op.operands[0]->rank() != op.y.rank()) return {};
  const auto rank = static_cast<size_t>(op.y.rank());
  const std::vector<int64_t> before =
      integers_of(op.entry, "before", rank, 0, most_recorded_values);
  if (before.size() != rank) return {};
  OpTerms terms;
  const LoopCoordinates x = terms.loops.loops_over(*op.operands[0]);
  LoopCoordinates y = x;
  for (size_t axis = 0; axis < rank; ++axis) {
    y[axis].offset = before[axis];
    y[axis].extent = op.y[static_cast<int>(axis)];
    if (x[axis].extent + before[axis] > y[axis].extent) return {};
  }
  terms.loops.set(0, y);
  terms.loops.set(1, x);
  return {terms};
}

// Tensor 1 with an extent of 1 along the axis that is indexed.
OpTermList embedding_terms(const OpShapes& op) {
  if (!op.operands[0] || op.operands[0]->rank() != 2) return {};
  const int64_t rows = (*op.operands[0])[0], features = (*op.operands[0])[1];
  if (features == 0 || op.y.count() % features != 0) return {};
  OpTerms terms{.indexed = rows, .inner = features, .per = features};
  const LoopCoordinates y = terms.loops.loops_over({op.y.count() / features, features});
  terms.loops.set(0, y);
  terms.loops.set(1, {y[1]});
  return indexed(op, std::move(terms), op.y.count() / features);
}

OpTermList gather_terms(const OpShapes& op) {
  if (!op.operands[0] || op.operands[0]->rank() != op.y.rank()) return {};
  const std::vector<int64_t> axis = integers_of(op.entry, "axis", 1, 0, op.y.rank() - 1);
  if (axis.empty()) return {};
  const auto along = static_cast<int>(axis[0]);
  const Shape& x = *op.operands[0];
  if (!(x.with(along, 1) == op.y.with(along, 1))) return {};
  OpTerms terms{.indexed = x[along]};
  LoopCoordinates y = terms.loops.loops_over(op.y);
  terms.loops.set(0, y);
  for (int after = along + 1; after < x.rank(); ++after) terms.inner *= x[after];
  y[static_cast<size_t>(along)] = {};
  terms.loops.set(1, y);
  return indexed(op, std::move(terms), op.y.count());
}

struct TermRow {
  std::string_view names;  // between blanks
  OpTermList (*terms)(const OpShapes&);
};
constexpr TermRow term_rows[] = {
    {" reshape cast recompute ", same_order_terms},
    {" cross_entropy binary_cross_entropy_with_logits ", to_scalar_terms},
    {" sum mean max min ", reduction_terms},
    {" sum_products_to ", sum_to_terms},
    {" transpose ", transpose_terms},
    {" concat ", concat_terms},
    {" split ", split_terms},
    {" slice ", slice_terms},
    {" matmul ", matmul_terms},
    {" linear ", linear_terms},
    {" conv2d ", convolution_terms},
    {" max_pool2d avg_pool2d ", pooling_terms},
    {" gather ", gather_terms},
    {" pad ", pad_terms},
    {" embedding ", embedding_terms},
    {" add sub mul div maximum minimum affine exp log sqrt reciprocal abs pow clamp relu "
     "leaky_relu gelu silu sigmoid tanh softplus relu6 hard_sigmoid hard_swish dropout where "
     "broadcast_to softmax log_softmax batch_norm layer_norm group_norm excite ",
     elementwise_terms}};

}  // namespace

// Those of `small` where its axes, from the last on, are those of `large` or 1.
std::optional<LoopCoordinates> broadcast_coordinates(const Shape& small, const Shape& large,
                                                     const LoopCoordinates& of_large) {
  if (small.rank() > large.rank()) return std::nullopt;
  LoopCoordinates own(static_cast<size_t>(small.rank()));
  for (int axis = 1; axis <= small.rank(); ++axis) {
    const auto at = [&](const auto& all) { return all.size() - static_cast<size_t>(axis); };
    if (small[-axis] == large[-axis]) {
      own[at(own)] = of_large[at(of_large)];
    } else if (small[-axis] != 1) {
      return std::nullopt;
    }
  }
  return own;
}

std::vector<int64_t> integers_of(const TapeEntry& entry, std::string_view name, size_t count,
                                 int64_t low, int64_t high) {
  std::vector<int64_t> result;
  for (const double value : entry.attribute(name)) {
    if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high))) return {};
    result.push_back(static_cast<int64_t>(value));
  }
  if (result.size() != count) result.clear();
  return result;
}

std::vector<OpTerms> terms_of(const Recording& recording, const TapeEntry& entry) {
  OpShapes op{recording, entry, entry.outputs[0].shape, {}};
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (const TapeOutput* own = operand_at(recording, entry, i)) op.operands[i] = &own->shape;
  }
  const std::string name = fmt::format(" {} ", entry.name);
  for (const TermRow& row : term_rows) {
    if (row.names.find(name) != std::string_view::npos) return row.terms(op);
  }
  return {};
}

}  // namespace whisker
