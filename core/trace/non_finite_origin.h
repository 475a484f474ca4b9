// Where the first NaN or Inf of a recorded step came from, and why.
#pragma once

#include "core/trace/recording.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

struct NonFiniteOrigin {
  enum class Where : uint8_t {
    operand,   ///< a parameter, or an input of the step
    forward,   ///< the result of an operator whose operands are finite
    backward,  ///< a gradient that an operator gave to an operand
  };
  Where where = Where::forward;
  size_t entry = 0;  ///< the operator, or the operand itself
  /// The entry and output that got the first such gradient; of `backward` alone.
  TapeInput target = {};

  /// The first in the order in which the step ran; nothing where all its values are finite.
  static std::optional<NonFiniteOrigin> of(const Recording& recording);

  /// Sentences: the cause as far as the recorded values tell it, and what helps.
  std::vector<std::string> reasons(const Recording& recording) const;
};

inline constexpr std::string_view non_finite_where_names[] = {"operand", "forward", "backward"};

}  // namespace whisker
