// Elementwise operators, reductions, and operators that only move elements.
#include "core/trace/op_linker.h"

namespace whisker {

void for_each_position(const Shape& shape,
                       const std::function<void(int64_t, const ElementPosition&)>& at) {
  ElementPosition position{};
  for (int64_t i = 0; i < shape.count(); ++i) {
    at(i, position);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      if (++position[a] < shape[axis]) break;
      position[a] = 0;
    }
  }
}

OpLinker::OpLinker(const Recording& recording, const TapeEntry& entry, const Visit& visit)
    : recording_(recording), entry_(entry), visit_(visit), y_(entry.outputs[0].shape) {
  for (size_t i = 0; i < shapes_.size(); ++i) {
    if (const TapeOutput* operand = operand_at(recording, entry, i)) shapes_[i] = &operand->shape;
  }
}

std::vector<int64_t> OpLinker::integers(std::string_view name, size_t count, int64_t low,
                                        int64_t high) const {
  std::vector<int64_t> result;
  for (const double value : entry_.attribute(name)) {
    if (!(value >= static_cast<double>(low) && value <= static_cast<double>(high))) return {};
    result.push_back(static_cast<int64_t>(value));
  }
  if (result.size() != count) result.clear();
  return result;
}

bool OpLinker::elementwise() const {
  std::array<std::vector<int64_t>, 4> strides;
  for (size_t k = 0; k < 4; ++k) {
    if (!shapes_[k]) continue;
    const Shape& shape = *shapes_[k];
    if (shape.rank() > y_.rank()) return false;
    for (int axis = 1; axis <= shape.rank(); ++axis) {
      if (shape[-axis] != 1 && shape[-axis] != y_[-axis]) return false;
    }
    strides[k] = strides_over(shape, true);
  }
  for_each_position(y_, [&](int64_t i, const ElementPosition& position) {
    OpLink link{.element = i};
    for (size_t k = 0; k < 4; ++k) {
      if (!shapes_[k]) continue;
      const size_t added = static_cast<size_t>(y_.rank() - shapes_[k]->rank());
      link.operands[k] = 0;
      for (size_t axis = 0; axis < strides[k].size(); ++axis) {
        link.operands[k] += strides[k][axis] * position[axis + added];
      }
    }
    visit_(link);
  });
  return true;
}

// Elements in one order on both sides.
bool OpLinker::same_order() const {
  if (!shapes_[0] || shapes_[0]->count() != y_.count()) return false;
  for (int64_t i = 0; i < y_.count(); ++i) visit_({.element = i, .operands = {i, -1, -1, -1}});
  return true;
}

bool OpLinker::to_scalar() const {
  if (!shapes_[0] || y_.count() != 1) return false;
  for (int64_t i = 0; i < shapes_[0]->count(); ++i) visit_({.operands = {i, -1, -1, -1}});
  return true;
}

bool OpLinker::reduction() const {
  if (!shapes_[0]) return false;
  const Shape& x = *shapes_[0];
  std::vector<bool> reduced(static_cast<size_t>(x.rank()), false);
  for (const double axis : entry_.attribute("axes")) {
    if (!(axis >= 0 && axis < x.rank())) return false;
    reduced[static_cast<size_t>(axis)] = true;
  }
  int64_t count = 1;
  std::vector<int64_t> strides(reduced.size(), 0);
  for (size_t axis = reduced.size(); axis-- > 0;) {
    if (reduced[axis]) continue;
    strides[axis] = count;
    count *= x[static_cast<int>(axis)];
  }
  if (count != y_.count()) return false;
  for_each_position(x, [&](int64_t i, const ElementPosition& position) {
    OpLink link{.operands = {i, -1, -1, -1}};
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      link.element += strides[axis] * position[axis];
    }
    visit_(link);
  });
  return true;
}

bool OpLinker::sum_to() const {
  if (!shapes_[0] || !shapes_[1] || !(*shapes_[0] == *shapes_[1])) return false;
  const Shape& x = *shapes_[0];
  if (y_.rank() > x.rank()) return false;
  for (int axis = 1; axis <= y_.rank(); ++axis) {
    if (y_[-axis] != 1 && y_[-axis] != x[-axis]) return false;
  }
  const std::vector<int64_t> strides = strides_over(y_, true);
  const auto added = static_cast<size_t>(x.rank() - y_.rank());
  for_each_position(x, [&](int64_t i, const ElementPosition& position) {
    OpLink link{.operands = {i, i, -1, -1}};
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      link.element += strides[axis] * position[axis + added];
    }
    visit_(link);
  });
  return true;
}

bool OpLinker::transpose() const {
  if (!shapes_[0]) return false;
  const auto rank = static_cast<size_t>(y_.rank());
  const std::vector<int64_t> order = integers("order", rank, -y_.rank(), y_.rank() - 1);
  if (order.empty() || shapes_[0]->rank() != y_.rank()) return false;
  const std::vector<int64_t> strides = strides_over(*shapes_[0]);
  const auto from = [&](size_t axis) {
    return static_cast<size_t>(order[axis] < 0 ? order[axis] + y_.rank() : order[axis]);
  };
  std::vector<bool> taken(rank, false);
  for (size_t axis = 0; axis < rank; ++axis) {
    const size_t source = from(axis);
    if (taken[source] || (*shapes_[0])[static_cast<int>(source)] != y_[static_cast<int>(axis)]) {
      return false;
    }
    taken[source] = true;
  }
  for_each_position(y_, [&](int64_t i, const ElementPosition& position) {
    int64_t element = 0;
    for (size_t axis = 0; axis < rank; ++axis) element += strides[from(axis)] * position[axis];
    visit_({.element = i, .operands = {element, -1, -1, -1}});
  });
  return true;
}

// Boxes side by side along one axis: `whole` is made of, or cut into, the boxes.
bool OpLinker::boxes(const Shape& whole, std::span<const Shape> parts, int64_t begin,
                     bool cut) const {
  const std::vector<int64_t> axis = integers("axis", 1, 0, whole.rank() - 1);
  if (axis.empty()) return false;
  const auto along = static_cast<size_t>(axis[0]);
  const std::vector<int64_t> strides = strides_over(whole);
  int64_t end = begin;
  for (const Shape& part : parts) {
    if (part.rank() != whole.rank()) return false;
    for (int a = 0; a < whole.rank(); ++a) {
      if (a != axis[0] && part[a] != whole[a]) return false;
    }
    if (__builtin_add_overflow(end, part[static_cast<int>(along)], &end)) return false;
  }
  if (begin < 0 || end > whole[static_cast<int>(along)]) return false;
  for (size_t k = 0; k < parts.size(); ++k) {
    for_each_position(parts[k], [&](int64_t i, const ElementPosition& position) {
      int64_t element = begin * strides[along];
      for (size_t a = 0; a < strides.size(); ++a) element += strides[a] * position[a];
      if (cut) {
        visit_({.element = i, .operands = {element, -1, -1, -1}, .output = k});
      } else {
        visit_({.element = element, .operands = {i, -1, -1, -1}, .first_position = k});
      }
    });
    begin += parts[k][static_cast<int>(along)];
  }
  return true;
}

bool OpLinker::concat() const {
  std::vector<Shape> parts;
  for (size_t i = 0; i < entry_.inputs.size(); ++i) {
    const TapeOutput* part = operand_at(recording_, entry_, i);
    if (!part) return false;
    parts.push_back(part->shape);
  }
  return boxes(y_, parts, 0, false);
}

bool OpLinker::split() const {
  if (!shapes_[0]) return false;
  std::vector<Shape> parts;
  for (const TapeOutput& output : entry_.outputs) parts.push_back(output.shape);
  return boxes(*shapes_[0], parts, 0, true);
}

bool OpLinker::slice() const {
  if (!shapes_[0]) return false;
  const std::vector<int64_t> begin = integers("begin", 1, 0, most_recorded_values);
  return !begin.empty() && boxes(*shapes_[0], {&y_, 1}, begin[0], true);
}

// The index of each result stands in what forward kept.
bool OpLinker::gather() const {
  if (!shapes_[0] || shapes_[0]->rank() != y_.rank() || entry_.saved.empty()) return false;
  const std::vector<int64_t> axis = integers("axis", 1, 0, y_.rank() - 1);
  const std::vector<double>& index = entry_.saved[0].value.all;
  if (axis.empty() || static_cast<int64_t>(index.size()) != y_.count()) return false;
  const auto along = static_cast<int>(axis[0]);
  const int64_t extent = (*shapes_[0])[along];
  if (!(shapes_[0]->with(along, 1) == y_.with(along, 1))) return false;
  for (const double one : index) {
    if (!(one >= 0 && one < static_cast<double>(extent))) return false;
  }
  const std::vector<int64_t> strides = strides_over(*shapes_[0]);
  for_each_position(y_, [&](int64_t i, const ElementPosition& position) {
    int64_t element = 0;
    for (size_t a = 0; a < strides.size(); ++a) {
      const bool read = static_cast<int>(a) == along;
      element +=
          strides[a] * (read ? static_cast<int64_t>(index[static_cast<size_t>(i)]) : position[a]);
    }
    visit_({.element = i, .operands = {element, -1, -1, -1}});
  });
  return true;
}

bool OpLinker::pad() const {
  if (!shapes_[0] || shapes_[0]->rank() != y_.rank()) return false;
  const auto rank = static_cast<size_t>(y_.rank());
  const std::vector<int64_t> before = integers("before", rank, 0, most_recorded_values);
  if (before.size() != rank) return false;
  for (int axis = 0; axis < y_.rank(); ++axis) {
    if ((*shapes_[0])[axis] + before[static_cast<size_t>(axis)] > y_[axis]) return false;
  }
  const std::vector<int64_t> strides = strides_over(y_);
  for_each_position(*shapes_[0], [&](int64_t i, const ElementPosition& position) {
    int64_t element = 0;
    for (size_t a = 0; a < rank; ++a) element += strides[a] * (position[a] + before[a]);
    visit_({.element = element, .operands = {i, -1, -1, -1}});
  });
  return true;
}

}  // namespace whisker
