// What times beside a series say of its rows: that they run backward, as those of many published
// series, are of several series, or are unevenly apart.
#pragma once

#include "data/sequences/row_file.h"

#include <span>
#include <string>
#include <vector>

namespace whisker {

struct TimeOrder {
  std::vector<std::string> notes = {};
  double step_seconds = 0;  ///< between most rows; 0: not known
};

/// Reads the first column of times beside those in `columns`. Notes say that rows are against the
/// order of time, of several series one behind the other (also without times, by a column whose
/// names come in blocks), of one time, or unevenly apart; nothing is said of the distances of dates
/// whose rows another column, such as that of the hours, tells apart. Times are dates in common
/// forms; where day and month cannot be told apart, both readings must agree. Of numbers they are
/// those that are named so, count seconds since 1970, or number the rows. Among dates a row without
/// one is moved to `file.bad`, from data.rules 3 on.
TimeOrder order_by_time(RowFile& file, std::span<const size_t> columns);

/// Whether two steps, both above 0, differ by less than half.
bool is_same_step(double one, double other);

}  // namespace whisker
