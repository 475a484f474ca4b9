// The terms of one operator, by the kind of its formula. Internal to core/trace.
#pragma once

#include "core/trace/op_links.h"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace whisker {

/// An element's position along each axis.
using ElementPosition = std::array<int64_t, Shape::max_rank>;
/// Calls `at` with every element of `shape` and its position, in row-major order.
void for_each_position(const Shape& shape,
                       const std::function<void(int64_t, const ElementPosition&)>& at);

/// Each member calls `visit` for every term, or returns false. Attributes may come from a file:
/// every index is checked before it is handed out.
class OpLinker {
 public:
  using Visit = std::function<void(const OpLink&)>;
  OpLinker(const Recording& recording, const TapeEntry& entry, const Visit& visit);

  bool elementwise() const;  ///< operands broadcast
  bool same_order() const;   ///< the elements of the operand, in their order
  bool to_scalar() const;
  bool reduction() const;
  bool sum_to() const;  ///< operands of one shape, which broadcasts the result's
  bool transpose() const;
  bool concat() const;
  bool split() const;
  bool slice() const;
  bool matmul() const;
  bool linear() const;
  enum class Windows : uint8_t { convolve, average, maximum };
  /// maximum: with the argmax alone.
  bool windows(Windows kind) const;
  bool conv_max_pool() const;
  bool embedding() const;
  bool gather() const;
  bool pad() const;

 private:
  bool boxes(const Shape& whole, std::span<const Shape> parts, int64_t begin, bool cut) const;
  /// The numbers of an attribute that are to be `count` integers in [low, high]; else empty.
  std::vector<int64_t> integers(std::string_view name, size_t count, int64_t low,
                                int64_t high) const;

  const Recording& recording_;
  const TapeEntry& entry_;
  const Visit& visit_;
  const Shape& y_;
  std::array<const Shape*, 4> shapes_ = {};  // of the operands by position
};

}  // namespace whisker
