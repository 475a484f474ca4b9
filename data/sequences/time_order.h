// Dates beside a series that run backward: newest first, as many published series are.
#pragma once

#include "data/sequences/row_file.h"

#include <span>
#include <string>

namespace whisker {

/// What the first column of ISO dates, beside those in `columns`, says of the rows' order: that
/// they run from the newest to the oldest, or how many are older than the row before. "" for rows
/// in the order of time and for a file without such dates.
std::string time_order_note(const RowFile& file, std::span<const size_t> columns);

}  // namespace whisker
