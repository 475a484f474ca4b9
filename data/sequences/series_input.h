// How a time series becomes a network's input, and its output a forecast. Part of the weights file.
#pragma once

#include "data/sequences/row_file.h"
#include "data/sequences/scaling.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct SeriesInput {
  std::vector<std::string> columns;  ///< read from each row: names, or numbers from 1
  std::vector<std::string> targets;  ///< those of them that are forecast
  int64_t window = 12;               ///< rows that a forecast is made from
  int64_t horizon = 1;               ///< rows forecast, those right behind the window
  int64_t season = 0;  ///< rows of a period, for the naive forecast; 0: the last row again
  bool log = false;    ///< take logarithms first; values must be above 0
  /// Then take differences to the row this many before; 0: none. A target is relative to the last
  /// row of its phase within the window.
  int64_t difference = 0;
  std::vector<Scaling> scaling = {};         ///< of each column
  std::vector<Scaling> target_scaling = {};  ///< of each output: (horizon, targets)
  Header header = Header::automatic;
  std::vector<std::string> names = {};  ///< of columns given by number, where a header has them
  double step_seconds = 0;  ///< between most rows, by dates beside the columns; 0: not known

  int64_t outputs() const { return horizon * static_cast<int64_t>(targets.size()); }
  /// Position of target `i` among the columns.
  size_t target_column(size_t i) const;
  /// "column 'temp'", "column 2" of each column, with what is done to it before it is scaled.
  std::vector<std::string> column_names() const;
  /// Rows that a forecast reads: the window, and the rows for its first differences.
  int64_t rows_needed() const { return window + difference; }

  std::string json() const;
  /// Throws checkpoint, naming `name`, for text that json() did not write.
  static SeriesInput from_json(std::string_view text, const std::string& name);
};

}  // namespace whisker
