// Which elements of an operator's operands go into which elements of its result: the terms of its
// formula, for small recorded operators.
#pragma once

#include "core/trace/recording.h"

#include <array>
#include <functional>

namespace whisker {

/// One term. Elements are row-major positions; -1: the operand has no part in this term.
struct OpLink {
  int64_t element = 0;  ///< of the result
  std::array<int64_t, 4> operands = {-1, -1, -1, -1};
  size_t output = 0;          ///< which result
  size_t first_position = 0;  ///< of operands[0]
};

/// Calls `visit` for every term of the operator `entry`, in a fixed order. False, without a call,
/// for operators whose terms are not known here, and where values are missing that decide them.
bool for_each_link(const Recording& recording, const TapeEntry& entry,
                   const std::function<void(const OpLink&)>& visit);

/// Row-major strides; 0 for axes of extent 1 where `broadcast`.
std::vector<int64_t> strides_over(const Shape& shape, bool broadcast = false);
/// The operand at a position, or nullptr.
const TapeOutput* operand_at(const Recording& recording, const TapeEntry& entry, size_t position);

}  // namespace whisker
