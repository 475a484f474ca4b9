// Values -> logarithms -> differences -> scaled, and the way back.
#include "data/sequences/series.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/hash.h"
#include "core/io/text.h"
#include "core/work_progress.h"
#include "data/sequences/dates.h"
#include "data/sequences/table_checks.h"
#include "data/sequences/table_header.h"
#include "data/sequences/time_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <utility>

namespace whisker {
namespace {

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

// The series after the steps that need no fitting. A window is named by its last row.
class Windows {
 public:
  Windows(const Series& series, const SeriesInput& input) : series_(series), input_(input) {
    levels_ = series.values;
    if (input.log) {
      for (double& value : levels_) value = std::log(value);
    }
    for (size_t i = 0; i < input.targets.size(); ++i) targets_.push_back(input.target_column(i));
  }

  /// What the network sees of a row, before scaling.
  double step(int64_t row, size_t column) const {
    const int64_t before = row - input_.difference;
    if (row < 0 || before < 0) return nothing;
    return input_.difference > 0 ? level(row, column) - level(before, column) : level(row, column);
  }
  /// What is added to output `j` of the window.
  double base(int64_t last, int64_t j) const {
    return input_.difference > 0 ? level(known_row(last, j, input_.difference), column_of(j)) : 0;
  }
  /// The value that output `j` is to be.
  double actual(int64_t last, int64_t j) const {
    return series_.at(last + 1 + ahead(j), column_of(j));
  }
  double target(int64_t last, int64_t j) const {
    return level(last + 1 + ahead(j), column_of(j)) - base(last, j);
  }
  double naive(int64_t last, int64_t j) const {
    const int64_t row = input_.season > 0 ? known_row(last, j, input_.season) : last;
    return row < 0 ? nothing : series_.at(row, column_of(j));
  }

  /// A hash of all rows that the window reads and forecasts; 0 where these hold so few values,
  /// as the hours of a day without rain do, that another window may hold the same by chance.
  uint64_t content(int64_t last) const {
    const int64_t begin = last + 1 - input_.rows_needed(), end = last + 1 + input_.horizon;
    if (!varies(begin, end)) return 0;
    Hash64 hash;
    hash.update(std::as_bytes(std::span(series_.values)
                                  .subspan(static_cast<size_t>(begin * series_.columns),
                                           static_cast<size_t>((end - begin) * series_.columns))));
    return hash.value();
  }

  /// See SequenceSet::hashes.
  uint64_t hash(int64_t last) const {
    constexpr int64_t before = 16;
    Hash64 hash;
    for (int64_t row = std::max<int64_t>(0, last + 1 - before); row <= last + input_.horizon;
         ++row) {
      for (const size_t column : targets_) {
        const double value = series_.at(row, column);
        hash.update(std::as_bytes(std::span(&value, 1)));
      }
    }
    return hash.value();
  }

  bool has_inputs(int64_t last) const {
    for (int64_t row = last - input_.window + 1; row <= last; ++row) {
      for (size_t c = 0; c < input_.columns.size(); ++c) {
        if (!std::isfinite(step(row, c))) return false;
      }
    }
    for (int64_t j = 0; j < input_.outputs(); ++j) {
      if (!std::isfinite(base(last, j))) return false;
    }
    return true;
  }
  /// The windows whose targets lie in `range`.
  std::vector<int64_t> within(const WindowRange& range) const {
    std::vector<int64_t> found;
    for (int64_t last = std::max<int64_t>(0, range.begin - 1);
         last + input_.horizon < std::min(range.end, series_.rows()); last += range.stride) {
      bool whole = has_inputs(last);
      for (int64_t j = 0; whole && j < input_.outputs(); ++j) {
        whole = std::isfinite(target(last, j));
      }
      if (whole) found.push_back(last);
      if (range.most > 0 && std::ssize(found) == range.most) break;
    }
    if (found.empty()) {
      fail(ErrorKind::data,
           "{}: no window of {}{} with {} to forecast fits into rows {} to {}{}. Use a shorter "
           "data.series.window, another data.val_split, or more rows.",
           series_.name, counted(input_.window, "row"),
           input_.difference > 0 ? fmt::format(" and {} before", input_.difference) : "",
           input_.horizon, range.begin + 1, range.end,
           series_.bad.empty() ? ""
                               : fmt::format("; of the file, {} cannot be used",
                                             counted(std::ssize(series_.bad), "row")));
    }
    return found;
  }

 private:
  bool varies(int64_t begin, int64_t end) const {
    const int64_t enough = std::min<int64_t>(5, end - begin);
    for (int64_t column = 0; column < series_.columns; ++column) {
      std::set<uint64_t> values;
      for (int64_t row = begin; row < end; ++row) {
        values.insert(std::bit_cast<uint64_t>(series_.at(row, static_cast<size_t>(column))));
        if (std::ssize(values) == enough) return true;
      }
    }
    return false;
  }
  double level(int64_t row, size_t column) const {
    if (row < 0) return nothing;
    return levels_[static_cast<size_t>(row * series_.columns) + column];
  }
  int64_t ahead(int64_t j) const { return j / std::ssize(targets_); }
  size_t column_of(int64_t j) const {
    return targets_[static_cast<size_t>(j % std::ssize(targets_))];
  }
  /// The last row of output j's phase, in periods of `period`, within the window.
  int64_t known_row(int64_t last, int64_t j, int64_t period) const {
    const int64_t periods = ahead(j) / period + 1;
    return last + 1 + ahead(j) - periods * period;
  }

  const Series& series_;
  const SeriesInput& input_;
  std::vector<double> levels_;
  std::vector<size_t> targets_;  // columns
};

// What the network sees of a column in the rows before `end`, before scaling.
std::vector<double> steps_of(const Windows& windows, int64_t end, size_t column) {
  std::vector<double> values;
  for (int64_t row = 0; row < end; ++row) {
    const double value = windows.step(row, column);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// What of a series is unlike the training data that `input` knows.
void note_unlike(const SeriesInput& input, Series& series) {
  const double here = series.step_seconds, there = input.step_seconds;
  if (here > 0 && there > 0 && !is_same_step(here, there)) {
    series.notes.push_back(fmt::format(
        "{}: rows are {} apart, in the training data {}: a network takes them for the same",
        series.name, duration_text(here, here), duration_text(there, there)));
  }
  const Windows windows(series, input);
  std::vector<Spread> columns;
  for (size_t c = 0; c < input.scaling.size(); ++c) {
    columns.push_back(Spread::of(steps_of(windows, series.rows(), c)));
  }
  const std::string note = unlike_note(columns, input.scaling, input.column_names());
  if (!note.empty()) series.notes.push_back(fmt::format("{}: {}", series.name, note));
}

void add_window(const Windows& windows, const SeriesInput& input, int64_t last, SequenceSet& set,
                ForecastBases& bases) {
  std::vector<float> steps;
  for (int64_t row = last - input.window + 1; row <= last; ++row) {
    for (size_t c = 0; c < input.columns.size(); ++c) {
      steps.push_back(static_cast<float>(input.scaling[c].apply(windows.step(row, c))));
    }
  }
  set.add_values(steps);
  for (int64_t j = 0; j < set.outputs; ++j) {
    bases.bases.push_back(windows.base(last, j));
    bases.naive.push_back(windows.naive(last, j));
  }
}

[[noreturn]] void refuse_last_rows(const Series& series, const SeriesInput& input) {
  const int64_t first = series.rows() - input.rows_needed();
  if (first < 0) {
    fail(ErrorKind::data,
         "{}: expected at least {} to forecast from, got {}: a forecast reads the last rows of the "
         "file. Add the rows before them.",
         series.name, counted(input.rows_needed(), "row"), series.rows());
  }
  std::vector<BadRow> bad = series.bad;  // each is a row without values
  std::ranges::stable_sort(bad, {}, &BadRow::line);
  for (int64_t row = 0, next = 0; row < series.rows() && next < std::ssize(bad); ++row) {
    if (!std::isnan(series.at(row, 0))) continue;
    const BadRow& found = bad[static_cast<size_t>(next++)];
    if (row < first) continue;
    fail(
        ErrorKind::data,
        "{}: {}; a forecast reads the last {}, and needs all of them. Correct this row, or let the "
        "file end before it.",
        found.place, found.reason, counted(input.rows_needed(), "row"));
  }
  fail(ErrorKind::data, "{}: the last {} hold values too large to forecast from", series.name,
       counted(input.rows_needed(), "row"));
}

SequenceSet empty_set(const SeriesInput& input) {
  SequenceSet set;
  set.features = std::ssize(input.columns);
  set.outputs = input.outputs();
  return set;
}

}  // namespace

double ForecastBases::restore(int64_t window, int64_t output, double scaled) const {
  const double level = input.target_scaling[static_cast<size_t>(output)].restore(scaled) +
                       bases[static_cast<size_t>(window * input.outputs() + output)];
  return input.log ? std::exp(level) : level;
}

Series read_series(const std::filesystem::path& path, const SeriesInput& input, double max_bad,
                   int rules) {
  RowFile file = read_rows(path, rules);
  std::vector<size_t> columns;
  for (const std::string& column : input.columns) columns.push_back(find_column(file, column));
  const bool named = !std::ranges::all_of(
      input.columns, [](const std::string& column) { return is_column_number(column); });
  drop_series_header(file, input.header, named, columns);
  Series series{.name = file.name, .values = {}, .columns = std::ssize(columns), .bad = {}};
  series.positions = columns;
  refuse_numbers_as_names(file, input.columns);
  refuse_thousands(file, columns);
  if (!named) series.names = names_of(file, columns, input.names);
  series.rules = rules;
  TimeOrder order = order_by_time(file, columns);
  series.step_seconds = order.step_seconds;
  series.notes = std::move(file.notes);
  std::ranges::move(order.notes, std::back_inserter(series.notes));
  std::vector<int> misshapen = file.repeated;  // lines between which no window lies
  for (const BadRow& row : file.bad) misshapen.push_back(row.line);
  std::ranges::sort(misshapen);
  size_t next_misshapen = 0;
  const auto add_misshapen = [&](int before_line) {
    for (; next_misshapen < misshapen.size() && misshapen[next_misshapen] < before_line;
         ++next_misshapen) {
      series.values.insert(series.values.end(), columns.size(), nothing);
    }
  };
  for (const CsvRow& row : file.rows) {
    count_progress();
    add_misshapen(row.line);
    std::vector<double> values;
    for (const size_t column : columns) {
      const std::optional<double> value = number_of(row.fields[column]);
      if (!value || (input.log && *value <= 0)) {
        const std::string& cell = row.fields[column];
        file.refuse(row, fmt::format("expected a number{} in column {}, got {}{}",
                                     input.log ? " above 0" : "", column + 1, excerpt(cell),
                                     comma_note(cell)));
        values.assign(columns.size(), nothing);
        break;
      }
      values.push_back(*value);
    }
    series.values.insert(series.values.end(), values.begin(), values.end());
  }
  add_misshapen(std::numeric_limits<int>::max());
  check_bad_rows(file.bad, file.count, max_bad);
  series.bad = std::move(file.bad);
  note_unlike(input, series);
  return series;
}

void fit_scaling(const Series& series, const WindowRange& range, SeriesInput& input) {
  const Windows windows(series, input);
  const std::vector<int64_t> ends = windows.within(range);
  input.scaling.clear();
  for (size_t c = 0; c < input.columns.size(); ++c) {
    const int64_t end = std::min(range.end, series.rows());
    input.scaling.push_back(Scaling::fitted_to(steps_of(windows, end, c), series.rules));
  }
  input.target_scaling.clear();
  for (int64_t j = 0; j < input.outputs(); ++j) {
    std::vector<double> values;
    for (const int64_t last : ends) values.push_back(windows.target(last, j));
    input.target_scaling.push_back(Scaling::fitted_to(values, series.rules));
  }
}

SequenceSet cut_windows(const Series& series, const WindowRange& range, const SeriesInput& input) {
  const Windows windows(series, input);
  SequenceSet set = empty_set(input);
  ForecastBases bases{.input = input};
  for (const int64_t last : windows.within(range)) {
    add_window(windows, input, last, set, bases);
    set.contents.push_back(windows.content(last));
    set.hashes.push_back(windows.hash(last));
    for (int64_t j = 0; j < set.outputs; ++j) {
      const Scaling& scaling = input.target_scaling[static_cast<size_t>(j)];
      set.targets.push_back(static_cast<float>(scaling.apply(windows.target(last, j))));
      bases.actual.push_back(windows.actual(last, j));
    }
  }
  set.bases = std::make_shared<const ForecastBases>(std::move(bases));
  return set;
}

SequenceSet last_window(const Series& series, const SeriesInput& input) {
  const Windows windows(series, input);
  const int64_t last = series.rows() - 1;
  if (last < 0 || !windows.has_inputs(last)) refuse_last_rows(series, input);
  SequenceSet set = empty_set(input);
  ForecastBases bases{.input = input};
  add_window(windows, input, last, set, bases);
  set.targets.assign(static_cast<size_t>(set.outputs), 0);
  set.bases = std::make_shared<const ForecastBases>(std::move(bases));
  return set;
}

}  // namespace whisker
