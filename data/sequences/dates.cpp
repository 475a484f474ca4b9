#include "data/sequences/dates.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <string_view>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr std::array time_forms = {" %I:%M:%S %p", " %I:%M %p", " %H:%M:%S", " %H:%M", " %H"};

// The seconds of what stands behind a date: "T08:00:00.5Z", " 8:00 PM", " 08:00+01:00", nothing.
std::optional<double> time_of_day(const char* text) {
  text += std::strspn(text, ",");
  if (text[std::strspn(text, " ")] == '\0') return 0;
  if (*text != 'T' && *text != ' ') return std::nullopt;
  if (*text == 'T') ++text;
  const std::string_view clock = text + std::strspn(text, " ");
  if (clock == "24:00" || clock == "24:00:00" || clock == "24") return 86400;  // the day's end
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

}  // namespace

std::optional<double> seconds_of_date(const std::string& field, const char* form) {
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
  const std::optional<double> time = time_of_day(rest);
  if (!time || !day.ok() || day.year() < year{first_year}) return std::nullopt;
  return 86400.0 * static_cast<double>(sys_days{day}.time_since_epoch().count()) + *time;
}

std::optional<double> weekday_seconds(double seconds) {
  constexpr double day = 86400;
  const double days = std::floor(seconds / day) + 3;  // 1970-01-01 was a Thursday
  const double weeks = std::floor(days / 7);
  if (days - 7 * weeks >= 5) return std::nullopt;
  return seconds - 2 * day * weeks;
}

std::string duration_text(double seconds, double usual) {
  struct Unit {
    double seconds;
    const char *one, *several;
    bool uneven;  // its length varies: whole numbers of it
  };
  constexpr std::array<Unit, 6> units = {{{31556952, "year", "years", true},
                                          {2629746, "month", "months", true},
                                          {86400, "day", "days", false},
                                          {3600, "h", "h", false},
                                          {60, "min", "min", false},
                                          {1, "s", "s", false}}};
  const Unit* unit = units.data();
  const auto fits = [&] {
    const double count = usual / unit->seconds;
    return unit->uneven ? std::round(count) >= 1 && std::abs(count - std::round(count)) < 0.05
                        : count > 0.99;
  };
  while (unit != &units.back() && !fits()) ++unit;
  const double count = seconds / unit->seconds;
  const double shown = unit->uneven ? std::round(count) : count;
  return fmt::format("{:.4g} {}", shown, shown == 1 ? unit->one : unit->several);
}

}  // namespace whisker
