// Which entries of two recordings are the same operator, parameter or input. Internal to
// core/trace.
#pragma once

#include "core/trace/recording.h"

#include <optional>
#include <vector>

namespace whisker {

/// The entry of B for each of A: parameters and inputs by name and how many of that name came
/// before, operators within their layer.
std::vector<std::optional<size_t>> recording_partners(const Recording& a, const Recording& b);

}  // namespace whisker
