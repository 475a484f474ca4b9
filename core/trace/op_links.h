// Which elements of an operator's operands go into which elements of its result: the terms of its
// formula.
#pragma once

#include "core/trace/recording.h"

#include <array>
#include <functional>
#include <limits>

namespace whisker {

/// One term. Elements are row-major positions; -1: the operand has no part in this term.
struct OpLink {
  int64_t element = 0;  ///< of the result
  std::array<int64_t, 4> operands = {-1, -1, -1, -1};
  size_t output = 0;          ///< which result
  size_t first_position = 0;  ///< of operands[0]

  /// The element of the operand at a position; -1 where it has no part in this term.
  int64_t operand(size_t position) const {
    const size_t slot = position - first_position;  // wraps round where it is before
    return slot < operands.size() ? operands[slot] : -1;
  }
};
using LinkVisit = std::function<void(const OpLink&)>;

/// Whether no tensor of it has more than most_recorded_values elements, or none.
bool has_small_tensors(const Recording& recording, const TapeEntry& entry);
/// Calls `visit` for every term of a small operator `entry`, in a fixed order. False, without a
/// call, for operators whose terms are not known here, for those that are not small, and where
/// values are missing that decide them.
bool for_each_link(const Recording& recording, const TapeEntry& entry, const LinkVisit& visit);
inline constexpr int64_t all_links = std::numeric_limits<int64_t>::max();
/// The terms of one element of a result, of operators of any size; of long sums the first `most`.
bool for_each_link_of(const Recording& recording, const TapeEntry& entry, size_t output,
                      int64_t element, const LinkVisit& visit, int64_t most = all_links);
/// Those that one element of the operand at `position` goes into.
bool for_each_link_from(const Recording& recording, const TapeEntry& entry, size_t position,
                        int64_t element, const LinkVisit& visit, int64_t most = all_links);

/// Row-major strides.
std::vector<int64_t> strides_over(const Shape& shape);
/// The operand at a position, or nullptr.
const TapeOutput* operand_at(const Recording& recording, const TapeEntry& entry, size_t position);

}  // namespace whisker
