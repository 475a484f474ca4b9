// The local rules of operators: result and gradients as formulas, and one element of each with the
// recorded numbers put in.
#pragma once

#include "core/trace/recording.h"

#include <string>
#include <vector>

namespace whisker {

/// "[0,2]": a row-major position; "" of a scalar.
std::string index_in(const Shape& shape, int64_t element);

/// "x" of relu's operand 0; "input 1" for operators without a rule here.
std::string operand_name(const TapeEntry& entry, size_t position);
/// What the operator keeps for backward, one name each: operands and results as its rule has them,
/// parameters and inputs by their own names, "argmax (16) u8" and "workspace (16) f32".
std::vector<std::string> saved_names(const Recording& recording, const TapeEntry& entry);
/// "conv2d + relu + max_pool2d": what a fused operator computes; its name for others.
std::string operator_parts(const TapeEntry& entry);

/// "y = max(x, 0)"; "" for operators without a rule here.
std::string forward_rule(const TapeEntry& entry);
/// "dx = dy * (y > 0)", of the operand at `position`.
std::string backward_rule(const Recording& recording, const TapeEntry& entry, size_t position);

/// "y[0,1] = max(-0.3, 0) = 0"; "" where there is no rule, or values are missing.
std::string forward_example(const Recording& recording, const TapeEntry& entry);
/// "dx[0,1] = 0.5 * (0.2 > 0) = 0.5", of the element that this gives the largest gradient.
std::string backward_example(const Recording& recording, const TapeEntry& entry, size_t position);

}  // namespace whisker
