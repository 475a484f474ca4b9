// Shape arithmetic; every product is checked before it is trusted.
#include "core/tensor/shape.h"

#include <algorithm>

namespace whisker {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) {
  if (extents.size() > max_rank) {
    fail(ErrorKind::usage, "shape: expected at most {} axes, got {}", max_rank, extents.size());
  }
  constexpr int64_t limit = int64_t{1} << 59;  // so that bytes fit too, at 8 per element
  bool empty = false;
  for (const int64_t extent : extents) {
    if (extent < 0) {
      fail(ErrorKind::usage, "shape: expected extents of 0 or more, got {} in ({})", extent,
           fmt::join(extents, ","));
    }
    if (extent == 0) {
      empty = true;
    } else if (count_ > limit / extent) {
      fail(ErrorKind::usage, "shape: ({}) has more than 2^59 elements", fmt::join(extents, ","));
    } else {
      count_ *= extent;
    }
    extents_[static_cast<size_t>(rank_++)] = extent;
  }
  if (empty) count_ = 0;
}

int64_t Shape::operator[](int axis) const {
  return extents_[static_cast<size_t>(normalize_axis(axis, "shape"))];
}

int Shape::normalize_axis(int axis, const char* op) const {
  if (axis < -rank_ || axis >= rank_) {
    fail(ErrorKind::usage, "{}: axis {} is outside shape {} of rank {}", op, axis, str(), rank_);
  }
  return axis < 0 ? axis + rank_ : axis;
}

Shape Shape::with(int axis, int64_t extent) const {
  auto extents = extents_;
  extents[static_cast<size_t>(normalize_axis(axis, "shape"))] = extent;
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(rank_)));
}

Shape Shape::without(int axis) const {
  auto extents = extents_;
  const int drop = normalize_axis(axis, "shape");
  std::copy(extents_.begin() + drop + 1, extents_.begin() + rank_, extents.begin() + drop);
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(rank_ - 1)));
}

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

std::string Shape::str() const {
  return fmt::format("({})", fmt::join(begin(), end(), ","));
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::max_rank> extents{};
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[-i] : 1;
    const int64_t y = i <= b.rank() ? b[-i] : 1;
    if (x != y && x != 1 && y != 1) {
      fail(ErrorKind::usage,
           "{}: shapes {} and {} do not broadcast: axis {} has {} and {}; they must be equal or 1",
           op, a, b, -i, x, y);
    }
    extents[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(rank)));
}

}  // namespace whisker
