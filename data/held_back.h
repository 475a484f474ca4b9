// Which examples are held back for validation.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Whether each example is held back: `fraction` of each class, rounded, at least one example and
/// never all, chosen by `seed`. Labels are positions in `classes`. Throws usage unless
/// 0 < fraction < 1, data for a class of fewer than two examples.
std::vector<bool> hold_back(std::span<const int64_t> labels, std::span<const std::string> classes,
                            double fraction, uint64_t seed);

}  // namespace whisker
