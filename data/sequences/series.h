// Time series in a CSV file, a row per time step, and the windows that a forecast is learned from.
#pragma once

#include "data/sequences/row_file.h"
#include "data/sequences/sequence_set.h"
#include "data/sequences/series_input.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace whisker {

struct Series {
  std::string name;            ///< of the file
  std::vector<double> values;  ///< (rows, columns); NaN in a row that could not be used
  int64_t columns = 0;
  std::vector<BadRow> bad;
  std::vector<std::string> notes = {};  ///< what was assumed, and rows against the order of time
  std::vector<std::string> names =
      {};                              ///< of columns given by number, where the first row has them
  std::vector<size_t> positions = {};  ///< in a row, from 0, of the columns
  double step_seconds = 0;             ///< see SeriesInput
  int rules = newest_data_rules;       ///< see Note [Data rules]

  int64_t rows() const { return columns > 0 ? std::ssize(values) / columns : 0; }
  double at(int64_t row, size_t column) const {
    return values[static_cast<size_t>(row * columns) + column];
  }
};

/// How outputs for each window convert to the units of the file.
struct ForecastBases {
  SeriesInput input;
  std::vector<double> bases = {};   ///< (windows, outputs), added after scaling back
  std::vector<double> actual = {};  ///< (windows, outputs); empty when it is not known yet
  std::vector<double> naive = {};   ///< (windows, outputs): the value a season before

  /// Output `output` (of horizon x targets) for window `window`, scaled back.
  double restore(int64_t window, int64_t output, double scaled) const;
};

/// Reads the columns of `input` from `path`; a first row with names in them is a header. Rows
/// with a field that is no number (or not above 0, with `log`) are bad: no window includes them.
/// Throws data for a file that cannot be read, more than `max_bad` bad rows, unknown columns, and
/// columns of other names than `input` has. Notes also say that rows are further or less apart than
/// `input` knows, and that values are unlike those that its scaling was fitted to. `rules`: see
/// Note [Data rules].
Series read_series(const std::filesystem::path& path, const SeriesInput& input, double max_bad,
                   int rules = newest_data_rules);

/// Rows of targets that windows are made for.
struct WindowRange {
  int64_t begin = 0;   ///< first row that may be forecast
  int64_t end = 0;     ///< one behind the last
  int64_t stride = 1;  ///< rows between windows
  int64_t most = 0;    ///< largest number of windows, the first ones; 0: all
};

/// The row from which on the last `fraction` of so many rows is for validation.
inline int64_t first_validation_row(int64_t rows, double fraction) {
  return rows - std::llround(fraction * static_cast<double>(rows));
}

/// Fits the scaling of `input` to the windows of `range`. Throws data when there is no window.
void fit_scaling(const Series& series, const WindowRange& range, SeriesInput& input);
/// All windows whose targets lie in `range`, scaled, with bases. Throws data when there is none.
SequenceSet cut_windows(const Series& series, const WindowRange& range, const SeriesInput& input);
/// The window that ends with the last row: the input of a forecast of the future. Throws data when
/// the series is too short or has a bad row there.
SequenceSet last_window(const Series& series, const SeriesInput& input);

}  // namespace whisker
