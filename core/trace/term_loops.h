// The terms of an operator as nested loops: where each tensor is read is linear in the loops'
// counters. Internal to core/trace.
#pragma once

#include "core/tensor/shape.h"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace whisker {

/// A position along one axis: offset + the sum of counter * factor.
struct LoopCoordinate {
  int64_t extent = 1;                                  ///< of the axis
  std::vector<std::pair<size_t, int64_t>> terms = {};  ///< loop, factor of at least 1
  int64_t offset = 0;
};

class TermLoops {
 public:
  static constexpr size_t most_tensors = 5;  ///< the result, and four operands
  /// Row-major positions; -1 of tensors without coordinates.
  using Elements = std::array<int64_t, most_tensors>;

  /// The next inner loop. Returns its number.
  size_t loop(int64_t extent);
  /// A loop for each axis of `shape`, and their coordinates.
  std::vector<LoopCoordinate> loops_over(const Shape& shape);
  void set(size_t tensor, std::vector<LoopCoordinate> coordinates);

  /// Calls `at` where every coordinate lies within its axis, in the order of the loops: of all, or
  /// of one element of `tensor` alone. Loops over nothing that cannot lie within.
  void visit(const std::function<void(const Elements&)>& at) const { visit(0, -1, at); }
  /// Ends after `most` of them.
  void visit(size_t tensor, int64_t element, const std::function<void(const Elements&)>& at,
             int64_t most = std::numeric_limits<int64_t>::max()) const;

 private:
  std::vector<int64_t> extents_;
  std::array<std::vector<LoopCoordinate>, most_tensors> coordinates_ = {};
  std::array<bool, most_tensors> is_set_ = {};
};

}  // namespace whisker
