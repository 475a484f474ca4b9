#include "data/sequences/time_order.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/sequences/dates.h"
#include "data/sequences/scaling.h"
#include "data/sequences/several_series.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr double no_time = -std::numeric_limits<double>::infinity();
constexpr double hour = 3600;            // seconds
constexpr size_t rows_for_change = 500;  // for one that summer time explains

// A column of times.
struct Times {
  size_t column = 0;
  std::vector<double> of_rows = {};            // grow with time; no_time in a row without one
  double unit = 1;                             // seconds; 0: not known
  int64_t undated = 0;                         // rows without
  std::vector<size_t> older = {}, newer = {};  // rows than the one before
  bool sure = true;                            // no other form reads them otherwise
};

// Nothing where more than a tenth of the rows (with `all`: one) have no time, or all have the same.
template <class TimeOf>
std::optional<Times> read_times(const RowFile& file, size_t column, bool all,
                                const TimeOf& time_of) {
  Times times{.column = column};
  double before = no_time;
  for (size_t row = 0; row < file.rows.size(); ++row) {
    const std::optional<double> time = time_of(file.rows[row].fields[column]);
    times.of_rows.push_back(time.value_or(no_time));
    if (!time) {
      ++times.undated;
      if (all || times.undated > 1 + static_cast<int64_t>(row / 10)) return std::nullopt;
      continue;
    }
    if (before != no_time && *time < before) times.older.push_back(row);
    if (before != no_time && *time > before) times.newer.push_back(row);
    before = *time;
  }
  constexpr int64_t few = 3;  // dates beside a row without one
  const bool enough = times.undated == 0 || std::ssize(file.rows) - times.undated >= few;
  if (!enough || times.older.size() + times.newer.size() == 0) return std::nullopt;
  return times;
}

// Read so that the fewest rows have no date, then so that the fewest are older than the one before.
std::optional<Times> times_of_dates(const RowFile& file, size_t column) {
  const auto faults = [](const Times& times) {
    return std::pair(times.undated, times.older.size());
  };
  std::optional<Times> best;
  for (const char* const form : date_forms) {
    auto times = read_times(file, column, false,
                            [&](const std::string& field) { return seconds_of_date(field, form); });
    if (!times) continue;
    if (!best || faults(*times) < faults(*best)) {
      best = std::move(times);
    } else if (faults(*times) == faults(*best)) {
      best->sure = best->sure && times->of_rows == best->of_rows;
    }
  }
  return best;
}

// The seconds that 1 stands for, or 0 where it is not known, if numbers, which never grow or never
// fall, are times: by their name, as seconds to nanoseconds since 1970 (of 1973 to 2099), or in a
// first column that numbers the rows.
std::optional<double> unit_of_times(const RowFile& file, size_t column) {
  constexpr std::array<std::string_view, 16> words = {
      "t",    "ts",   "ds",    "time",  "times", "timestamp", "date",   "datetime",
      "year", "week", "epoch", "month", "day",   "unix",      "second", "seconds"};
  const auto value = [&](size_t row) { return *number_of(file.rows[row].fields[column]); };
  for (const double unit : {1.0, 1e3, 1e6, 1e9}) {
    const auto in_use = [&](double time) { return time >= 1e8 * unit && time <= 4.1e9 * unit; };
    if (in_use(value(0)) && in_use(value(file.rows.size() - 1))) return 1 / unit;
  }
  const std::string name = file.names.empty() ? "" : to_small_letters(file.names[column]);
  if (std::ranges::find(words, name) != words.end()) return 0;
  const bool unnamed = name.empty() || name == "index" || name.starts_with("unnamed: ");
  if (column > 0 || !unnamed) return std::nullopt;
  for (size_t row = 1; row < file.rows.size(); ++row) {
    if (std::abs(value(row) - value(row - 1)) != 1) return std::nullopt;
  }
  return 0;
}

std::optional<Times> times_of_numbers(const RowFile& file, size_t column) {
  auto times =
      read_times(file, column, true, [](const std::string& field) { return number_of(field); });
  if (!times || times->older.empty() == times->newer.empty()) return std::nullopt;
  const std::optional<double> unit = unit_of_times(file, column);
  if (unit) times->unit = *unit;
  return unit ? std::move(times) : std::nullopt;
}

std::optional<Times> find_times(const RowFile& file, std::span<const size_t> beside) {
  constexpr size_t enough = 8;  // rows of numbers
  for (const size_t column : beside) {
    if (auto times = times_of_dates(file, column)) return times;
  }
  for (const size_t column : beside) {
    if (file.rows.size() < enough) break;
    if (auto times = times_of_numbers(file, column)) return times;
  }
  return std::nullopt;
}

// Whether each block of times lies before the one above it, as days written from the last to the
// first: a series that is not sorted.
bool blocks_descend(const Times& times) {
  const auto& at = times.of_rows;
  size_t above = 0;  // where the block above begins
  for (size_t i = 0; i < times.older.size(); ++i) {
    const size_t row = times.older[i];
    const size_t end = i + 1 < times.older.size() ? times.older[i + 1] : at.size();
    if (at[end - 1] == no_time || at[end - 1] >= at[above]) return false;
    above = row;
  }
  return true;
}

// Whether times go back to where the first ones are.
bool begin_again(const Times& times) {
  constexpr size_t fewest_rows = 3;
  constexpr double near = 0.05;  // of their range
  const auto& at = times.of_rows;
  const double last = *std::ranges::max_element(at);
  for (size_t i = 0; i < times.older.size(); ++i) {
    const size_t row = times.older[i];
    const size_t end = i + 1 < times.older.size() ? times.older[i + 1] : at.size();
    if (end - row < fewest_rows || at[row] > at[0] + near * (last - at[0])) return false;
  }
  return at[0] != no_time && !blocks_descend(times);
}

// Whether the only steps back in time are few and no longer than an hour, among times of day.
bool is_summer_time_end(const Times& times) {
  constexpr double day = 86400;
  const auto& at = times.of_rows;
  if (times.unit <= 0 || rows_for_change * times.older.size() > at.size()) return false;
  const auto falls_little = [&](size_t row) {
    return at[row - 1] != no_time && (at[row - 1] - at[row]) * times.unit <= hour;
  };
  return std::ranges::all_of(times.older, falls_little) &&
         std::ranges::any_of(at, [&](double time) {
           return time != no_time && std::fmod(time * times.unit, day) != 0;
         });
}

// What is said of rows that are not in the order of time; "" for those that are.
std::string order_note(const RowFile& file, const Times& times, std::span<const size_t> beside) {
  if (times.older.empty()) return "";
  const std::string_view remedy = "rows are read in the order of the file; sort it by time";
  const auto rows = std::ssize(file.rows);
  if (times.newer.empty()) {
    return fmt::format("{}: its {} rows run backward in time, from {} to {} (column {}): {}",
                       file.name, rows, printable(file.rows.front().fields[times.column]),
                       printable(file.rows.back().fields[times.column]), times.column + 1, remedy);
  }
  if (is_summer_time_end(times) && !begin_again(times)) {
    return fmt::format(
        "{}: its times (column {}) go back by an hour in {}, first in line {}, as where summer "
        "time ends: rows are read in the order of the file",
        file.name, times.column + 1, counted(std::ssize(times.older), "row"),
        file.rows[times.older[0]].line);
  }
  const auto& breaks = times.older.size() <= times.newer.size() ? times.older : times.newer;
  for (const size_t column : beside) {
    if (column == times.column) continue;
    const std::vector<size_t> starts = block_starts(file, column);
    if (std::ranges::includes(starts, breaks)) return blocks_note(file, column, breaks.front());
  }
  if (begin_again(times)) {
    return fmt::format("{}: its times (column {}) begin again in {}, first in line {}, {}",
                       file.name, times.column + 1, counted(std::ssize(times.older), "row"),
                       file.rows[times.older[0]].line, several_series);
  }
  return fmt::format("{}: {} of {} {} older than the row before (column {}): {}", file.name,
                     times.older.size(), counted(rows, "row"),
                     times.older.size() == 1 ? "is" : "are", times.column + 1, remedy);
}

// Between rows with nothing left out between them; without Saturdays and Sundays where `weekdays`.
std::vector<double> steps_between(const RowFile& file, const Times& times, bool weekdays) {
  std::vector<double> steps;
  double before = no_time;
  for (size_t row = 0; row < file.rows.size(); ++row) {
    double time = times.of_rows[row];
    if (time != no_time && times.unit > 0) time *= times.unit;
    if (time != no_time && weekdays) time = weekday_seconds(time).value_or(no_time);
    const bool next = row > 0 && file.rows[row].line <= file.rows[row - 1].line + 1;
    if (next && before != no_time && time != no_time) steps.push_back(time - before);
    before = time;
  }
  return steps;
}

bool is_on_weekdays(const Times& times) {
  return std::ranges::all_of(times.of_rows, [&](double time) {
    return time == no_time || weekday_seconds(time * times.unit);
  });
}

// Whether a column holds parts of a time, such as hours beside a date, by its name or its cells.
bool is_part_of_time(const RowFile& file, size_t column) {
  constexpr std::array<std::string_view, 16> words = {
      "hour", "hr", "hours", "time", "month",  "mnth", "mon",     "mo",
      "day",  "dy", "doy",   "min",  "minute", "week", "quarter", "period"};
  const std::string name = file.names.empty() ? "" : to_small_letters(file.names[column]);
  if (std::ranges::find(words, name) != words.end()) return true;
  return std::ranges::all_of(file.rows, [&](const CsvRow& row) {
    const std::string& cell = row.fields[column];
    return cell.find(':') != cell.npos && seconds_of_date("2000-01-01 " + cell, " %Y-%m-%d");
  });
}

// Whether another column tells rows of the same time apart, as that of the hours beside a date.
bool has_finer_part(const RowFile& file, const Times& times) {
  for (size_t column = 0; column < file.rows.front().fields.size(); ++column) {
    if (column == times.column || !is_part_of_time(file, column)) continue;
    for (size_t row = 1; row < file.rows.size(); ++row) {
      if (times.of_rows[row] != no_time && times.of_rows[row] == times.of_rows[row - 1] &&
          file.rows[row].fields[column] != file.rows[row - 1].fields[column]) {
        return true;
      }
    }
  }
  return false;
}

// Notes rows of the same time, and steps of another length than most, of rows in the order of time.
void check_steps(const RowFile& file, const Times& times, TimeOrder& found) {
  constexpr double day = 86400;
  std::vector<double> steps = steps_between(file, times, false);
  const auto repeated = std::erase(steps, 0);
  if (repeated > 0 && has_finer_part(file, times)) return;
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::ranges::nth_element(steps, middle);
  const double usual = steps.empty() ? 0 : *middle;
  if (repeated > 0) {
    const bool summer_time =
        usual * times.unit == hour && rows_for_change * repeated <= file.rows.size();
    found.notes.push_back(fmt::format(
        "{}: {} of {} {} the time of the row before (column {}){}: rows are read in the order of "
        "the file{}",
        file.name, repeated, counted(std::ssize(file.rows), "row"), repeated == 1 ? "has" : "have",
        times.column + 1, summer_time ? ", as where summer time ends" : "",
        summer_time ? ""
                    : ". Remove those that are copies; give each of several series a file of its "
                      "own"));
  }
  const bool within = repeated > steps.size();  // parts of a day, or several series
  if (!times.sure || steps.size() < 3 || within) return;
  if (usual == day && times.unit > 0 && is_on_weekdays(times)) {
    steps = steps_between(file, times, true);
    std::erase(steps, 0);
    constexpr double holidays = 3 * day;  // two of them between two days
    const auto few = static_cast<std::ptrdiff_t>(steps.size() / 10);
    const auto over_holidays = [&](double step) { return step > day && step <= holidays; };
    if (std::ranges::count_if(steps, over_holidays) <= few) std::erase_if(steps, over_holidays);
  }
  std::vector<double> others;
  for (const double step : steps) {
    if (!is_same_step(step, usual)) others.push_back(step);
  }
  const auto text = [&](double step) {
    return times.unit > 0 ? duration_text(step, usual) : fmt::format("{:.4g}", step);
  };
  const bool even = 2 * others.size() <= steps.size();
  if (even && times.unit > 0) found.step_seconds = usual;
  if (others.empty()) return;
  const auto [least, most] = std::ranges::minmax(others);
  const std::string range =
      text(least) == text(most) ? text(most) : fmt::format("{} to {}", text(least), text(most));
  constexpr std::string_view taken = "windows take the rows for evenly spaced";
  found.notes.push_back(
      even ? fmt::format("{}: rows are {} apart (column {}); {} of {} steps {} {}: {}", file.name,
                         text(usual), times.column + 1, others.size(), steps.size(),
                         others.size() == 1 ? "is" : "are", range, taken)
           : fmt::format("{}: rows are unevenly apart, {} (column {}): {}", file.name, range,
                         times.column + 1, taken));
}

// A row without a date among dates, such as a sum below the table. Runs of older rules read it.
void refuse_undated(RowFile& file, const Times& times) {
  if (times.undated == 0 || file.rules < 3) return;
  std::vector<CsvRow> dated;
  for (size_t row = 0; row < file.rows.size(); ++row) {
    if (times.of_rows[row] != no_time) {
      dated.push_back(std::move(file.rows[row]));
      continue;
    }
    file.refuse(file.rows[row],
                fmt::format("expected a date in column {} as in other rows, got {}",
                            times.column + 1, excerpt(file.rows[row].fields[times.column])));
  }
  file.rows = std::move(dated);
  std::ranges::stable_sort(file.bad, {}, &BadRow::line);
}

}  // namespace

bool is_same_step(double one, double other) {
  constexpr double most = 1.5;  // months and years differ by less, and what jitters
  return one <= most * other && other <= most * one;
}

TimeOrder order_by_time(RowFile& file, std::span<const size_t> columns) {
  TimeOrder found;
  if (file.rows.size() < 2) return found;
  std::vector<size_t> beside;
  for (size_t c = 0; c < file.rows.front().fields.size(); ++c) {
    if (std::ranges::find(columns, c) == columns.end()) beside.push_back(c);
  }
  const std::optional<Times> times = find_times(file, beside);
  std::string note = times ? order_note(file, *times, beside) : named_blocks_note(file, beside);
  if (!note.empty()) {
    found.notes.push_back(std::move(note));
  } else if (times) {
    check_steps(file, *times, found);
  }
  if (times) refuse_undated(file, *times);
  return found;
}

}  // namespace whisker
