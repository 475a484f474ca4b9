// The formulas of local_rule.h, one row per operator. Internal to core/trace.
#pragma once

#include "core/trace/recording.h"

#include <array>
#include <string>
#include <string_view>

namespace whisker {

inline constexpr size_t most_rule_operands = 8;

/// Names in terms: operands by their names here, y and dy at the element of the result, dz (dy
/// through a fused activation of z), attributes (scale), n (terms of a result), saved (what forward
/// kept), s (softmax's sum over the row), xhat, inv_std, u, mean_u, mean_ux (of norms).
struct OpRule {
  std::string_view name;
  std::array<std::string_view, most_rule_operands> operands;
  std::string_view forward;       ///< as shown
  std::string_view forward_term;  ///< one term of the result's sum; "" where it is none
  std::array<std::string_view, most_rule_operands> backward;       ///< as shown, per operand
  std::array<std::string_view, most_rule_operands> backward_term;  ///< one term; "" where as shown
  bool combines = false;  ///< several elements of an operand, each a term, to one of the result
};

/// nullptr when there is none.
const OpRule* find_rule(std::string_view name);
/// Whether each element of the result is one of an operand, so that the rule has no arithmetic.
bool moves_elements(const OpRule& rule);
/// Where the rule has the operand: cells of a recurrent layer follow each other.
size_t rule_position(const TapeEntry& entry, size_t position);
/// The rule's forward, of a recurrent layer its kind's.
std::string_view forward_text(const TapeEntry& entry, const OpRule& rule);
/// A rule of one gradient: as shown, and of one term; both "" where there is none.
struct GradientRule {
  std::string shown, term;
};
GradientRule gradient_rule(const TapeEntry& entry, const OpRule& rule, size_t position);
/// dz in terms of dy and y (of norms also z, their result before it) for a fused activation; "dy"
/// for none.
std::string_view through_activation(const TapeEntry& entry);
/// The name of an activation inside of the operator, or "".
std::string_view inner_activation(const TapeEntry& entry);
/// That of one which gives the operator's result, or "".
std::string_view fused_activation(const TapeEntry& entry);

}  // namespace whisker
