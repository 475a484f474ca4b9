// Times beside a series that run backward: newest first, as many published series are.
#pragma once

#include "data/sequences/row_file.h"

#include <span>
#include <string>

namespace whisker {

/// What the first column of times, beside those in `columns`, says of the rows' order: that they
/// run from the newest to the oldest or, of dates, how many are older than the row before. Times
/// are dates in common forms; where day and month cannot be told apart, both readings must agree.
/// Of numbers they are those that are named so, count seconds since 1970, or number the rows. ""
/// for rows in the order of time and for a file without times.
std::string time_order_note(const RowFile& file, std::span<const size_t> columns);

}  // namespace whisker
