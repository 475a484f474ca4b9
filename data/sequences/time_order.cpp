#include "data/sequences/time_order.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/unicode.h"
#include "data/sequences/scaling.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace whisker {
namespace {

using Key = std::optional<double>;  // grows with time

// For strptime(); a blank stands for any number of them.
constexpr std::array date_forms = {
    " %Y-%m-%d",  " %Y/%m/%d", " %Y.%m.%d", " %Y%m%d",   " %Y-%m",        " %Y/%m",
    " %d/%m/%Y",  " %m/%d/%Y", " %d/%m/%y", " %m/%d/%y", " %d.%m.%Y",     " %d.%m.%y",
    " %d-%m-%Y",  " %m-%d-%Y", " %m/%Y",    " %d %b %Y", " %d-%b-%Y",     " %d-%b-%y",
    " %b %d, %Y", " %b %d %Y", " %b %Y",    " %b-%Y",    " %a, %d %b %Y", " %Y-%b-%d"};
constexpr std::array time_forms = {" %I:%M:%S %p", " %I:%M %p", " %H:%M:%S", " %H:%M", " %H"};

// The seconds of what stands behind a date: "T08:00:00.5Z", " 8:00 PM", " 08:00+01:00", nothing.
Key time_of_day(const char* text) {
  text += std::strspn(text, ",");
  if (text[std::strspn(text, " ")] == '\0') return 0;
  if (*text != 'T' && *text != ' ') return std::nullopt;
  if (*text == 'T') ++text;
  for (const char* const form : time_forms) {
    std::tm time = {};
    const char* rest = ::strptime(text, form, &time);
    if (!rest) continue;
    double seconds = 3600.0 * time.tm_hour + 60.0 * time.tm_min + time.tm_sec;
    if (*rest == '.') {
      double fraction = 0;
      rest =
          std::from_chars(rest, rest + std::strlen(rest), fraction, std::chars_format::fixed).ptr;
      seconds += fraction;
    }
    if (const char* const end = ::strptime(rest, "%z", &time)) {
      rest = end;
      seconds -= static_cast<double>(time.tm_gmtoff);
    }
    rest += std::strspn(rest, " ABCDEFGHIJKLMNOPQRSTUVWXYZ");  // "UTC", "CET"
    if (*rest == '\0') return seconds;
  }
  return std::nullopt;
}

Key key_of_date(const std::string& field, const char* form) {
  using namespace std::chrono;
  constexpr int first_year = 1000;            // "1/2" is no month of the year 2
  if (form == std::string_view(" %Y%m%d")) {  // strptime() reads 195834, too
    const char* const digits = field.c_str() + std::strspn(field.c_str(), " ");
    if (std::strspn(digits, "0123456789") != 8) return std::nullopt;
  }
  std::tm date = {};
  date.tm_mday = 1;
  const char* const rest = ::strptime(field.c_str(), form, &date);
  if (!rest) return std::nullopt;
  const year_month_day day{year{date.tm_year + 1900}, month{static_cast<unsigned>(date.tm_mon + 1)},
                           std::chrono::day{static_cast<unsigned>(date.tm_mday)}};
  const Key time = time_of_day(rest);
  if (!time || !day.ok() || day.year() < year{first_year}) return std::nullopt;
  return 86400.0 * static_cast<double>(sys_days{day}.time_since_epoch().count()) + *time;
}

struct Order {
  int64_t older = 0, newer = 0;  // rows than the one before
};

// Nothing where a row has no key.
template <class KeyOf>
std::optional<Order> order_of(const RowFile& file, const KeyOf& key_of) {
  Order order;
  Key before;
  for (const CsvRow& row : file.rows) {
    const Key key = key_of(row);
    if (!key) return std::nullopt;
    order.older += before && *key < *before ? 1 : 0;
    order.newer += before && *key > *before ? 1 : 0;
    before = key;
  }
  return order;
}

// Of dates in a column: read so that the fewest rows are older than the one before.
std::optional<Order> order_of_dates(const RowFile& file, size_t column) {
  std::optional<Order> best;
  for (const char* const form : date_forms) {
    const auto order =
        order_of(file, [&](const CsvRow& row) { return key_of_date(row.fields[column], form); });
    if (order && (!best || order->older < best->older)) best = order;
  }
  return best;
}

// Whether numbers, which never grow or never fall, are times: by their name, as seconds to
// nanoseconds since 1970 (of 1973 to 2099), or in a first column that numbers the rows.
bool are_times(const RowFile& file, size_t column) {
  constexpr std::array<std::string_view, 16> words = {
      "t",    "ts",   "ds",    "time",  "times", "timestamp", "date",   "datetime",
      "year", "week", "epoch", "month", "day",   "unix",      "second", "seconds"};
  const auto value = [&](size_t row) { return *number_of(file.rows[row].fields[column]); };
  const std::string name = file.names.empty() ? "" : to_small_letters(file.names[column]);
  if (std::ranges::find(words, name) != words.end()) return true;
  for (const double unit : {1.0, 1e3, 1e6, 1e9}) {
    const auto in_use = [&](double time) { return time >= 1e8 * unit && time <= 4.1e9 * unit; };
    if (in_use(value(0)) && in_use(value(file.rows.size() - 1))) return true;
  }
  const bool unnamed = name.empty() || name == "index" || name.starts_with("unnamed: ");
  if (column > 0 || !unnamed) return false;
  for (size_t row = 1; row < file.rows.size(); ++row) {
    if (std::abs(value(row) - value(row - 1)) != 1) return false;
  }
  return true;
}

std::optional<Order> order_of_times(const RowFile& file, size_t column) {
  const auto order =
      order_of(file, [&](const CsvRow& row) { return number_of(row.fields[column]); });
  if (!order || (order->older > 0) == (order->newer > 0) || !are_times(file, column)) {
    return std::nullopt;
  }
  return order;
}

}  // namespace

std::string time_order_note(const RowFile& file, std::span<const size_t> columns) {
  constexpr size_t enough = 8;  // rows of numbers
  const auto note = [&](size_t column, const Order& order) -> std::string {
    if (order.older == 0) return "";
    const std::string_view remedy = "rows are read in the order of the file; sort it by time";
    const auto rows = std::ssize(file.rows);
    if (order.newer == 0) {
      return fmt::format("{}: its {} rows run backward in time, from {} to {} (column {}): {}",
                         file.name, rows, printable(file.rows.front().fields[column]),
                         printable(file.rows.back().fields[column]), column + 1, remedy);
    }
    return fmt::format("{}: {} of {} {} older than the row before (column {}): {}", file.name,
                       order.older, counted(rows, "row"), order.older == 1 ? "is" : "are",
                       column + 1, remedy);
  };
  std::vector<size_t> beside;
  for (size_t c = 0; file.rows.size() > 1 && c < file.rows.front().fields.size(); ++c) {
    if (std::ranges::find(columns, c) == columns.end()) beside.push_back(c);
  }
  for (const size_t column : beside) {
    if (const auto order = order_of_dates(file, column)) return note(column, *order);
  }
  if (file.rows.size() < enough) return "";
  for (const size_t column : beside) {
    if (const auto order = order_of_times(file, column)) return note(column, *order);
  }
  return "";
}

}  // namespace whisker
