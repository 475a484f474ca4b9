// Fused operators taken apart: run again as the operators that they stand for, to show what is
// inside. Internal to core/trace.
#pragma once

#include "core/trace/recording.h"

#include <optional>
#include <string_view>
#include <vector>

namespace whisker {

struct UnfusedOperator {
  Recording inside;                ///< in f64 on the reference device, with values
  std::vector<size_t> operands;    ///< the entry of each, by position; absent ones 0
  std::vector<TapeInput> results;  ///< where each result is
  std::vector<size_t> seeds;       ///< the entry that gives each result its gradient

  /// The gradient that arrives from outside, where `entry` is one of seeds; else nullptr.
  const RecordedValues* arrives_at(size_t entry) const;
};

/// Whether the operator is a fused one, which is run again.
bool is_fused(std::string_view name);
/// From recorded operands and the gradients that arrived. Nothing for operators that are none of
/// fused ones, where values are missing, and where other results come out than were recorded (as
/// with dropout inside, whose random numbers are not recorded).
std::optional<UnfusedOperator> unfused_operator(const Recording& recording, const TapeEntry& entry);

}  // namespace whisker
