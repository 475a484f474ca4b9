// Recorded values as text.
#pragma once

#include "core/trace/recording.h"

#include <string>
#include <vector>

namespace whisker {

/// "[[0.1, 0.2], [0.3, 0.4]]", the first of them where they do not fit into `width` columns, or
/// "mean 0.1, deviation 0.2, -1 to 1, norm 3"; "empty", or "not recorded" where nothing is known.
std::string brief_values(const RecordedValues& values, const Shape& shape, size_t width);

/// All values, a row of the last axis on each line ("[0,:] 0.1 0.2"), in the shortest digits that
/// read back as the same number of `dtype`; the statistics and a histogram of large tensors.
std::vector<std::string> all_values(const RecordedValues& values, const Shape& shape, DType dtype);

}  // namespace whisker
