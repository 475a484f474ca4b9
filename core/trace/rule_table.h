// The formulas of local_rule.h, one row per operator. Internal to core/trace.
#pragma once

#include "core/trace/recording.h"

#include <array>
#include <string_view>

namespace whisker {

/// Names in terms: operands by their names here, y and dy at the element of the result, dz (dy
/// through a fused activation of z), attributes (scale), n (terms of a result), saved (what forward
/// kept), s (softmax's sum over the row), xhat, inv_std, u, mean_u, mean_ux (of norms).
struct OpRule {
  std::string_view name;
  std::array<std::string_view, 4> operands;
  std::string_view forward;                  ///< as shown
  std::string_view forward_term;             ///< one term of the result's sum; "" where it is none
  std::array<std::string_view, 4> backward;  ///< as shown, per operand
  std::array<std::string_view, 4> backward_term;  ///< one term; "" where as shown
};

/// nullptr when there is none.
const OpRule* find_rule(std::string_view name);
/// dz in terms of dy and y (of norms also z, their result before it) for a fused activation; "dy"
/// for none.
std::string_view through_activation(const TapeEntry& entry);
/// The fused activation's name, or "".
std::string_view fused_activation(const TapeEntry& entry);

}  // namespace whisker
