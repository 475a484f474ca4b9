// Shapes: up to eight non-negative extents, row-major, with overflow-checked element counts.
#pragma once

#include "core/error.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace whisker {

class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;
  /// Throws usage for a negative extent, a rank over eight, or more than 2^59 elements.
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  /// Product of the extents; 1 for a scalar.
  int64_t count() const { return count_; }
  /// Extent of `axis`; negative axes count from the end. Throws usage when out of range.
  int64_t operator[](int axis) const;
  const int64_t* begin() const { return extents_.data(); }
  const int64_t* end() const { return extents_.data() + rank_; }
  std::span<const int64_t> extents() const { return {begin(), end()}; }
  /// `axis` in [0, rank), negative counted from the end; `op` names the caller in the error.
  int normalize_axis(int axis, const char* op) const;
  Shape with(int axis, int64_t extent) const;
  Shape without(int axis) const;
  bool operator==(const Shape& other) const;
  /// "(2,3,4)".
  std::string str() const;

 private:
  std::array<int64_t, max_rank> extents_{};
  int64_t count_ = 1;
  int rank_ = 0;
};

/// The shape both broadcast to by NumPy's rules; throws usage naming `op` and both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

}  // namespace whisker

template <>
struct fmt::formatter<whisker::Shape> : fmt::formatter<std::string_view> {
  auto format(const whisker::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(shape.str(), context);
  }
};
