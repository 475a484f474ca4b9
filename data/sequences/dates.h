// Dates and times of day in the forms of published tables, and the text of a time between two rows.
#pragma once

#include <array>
#include <optional>
#include <string>

namespace whisker {

/// Dates as strptime() has them; a blank stands for any number of them. A time of day may follow.
inline constexpr std::array date_forms = {
    " %Y-%m-%d",  " %Y/%m/%d", " %Y.%m.%d", " %Y%m%d",   " %Y-%m",        " %Y/%m",
    " %d/%m/%Y",  " %m/%d/%Y", " %d/%m/%y", " %m/%d/%y", " %d.%m.%Y",     " %d.%m.%y",
    " %d-%m-%Y",  " %m-%d-%Y", " %m/%Y",    " %d %b %Y", " %d-%b-%Y",     " %d-%b-%y",
    " %b %d, %Y", " %b %d %Y", " %b %Y",    " %b-%Y",    " %a, %d %b %Y", " %Y-%b-%d"};

/// Seconds since 1970 of a date in one of date_forms, years from 1000 on; nothing for other text.
std::optional<double> seconds_of_date(const std::string& field, const char* form);

/// Days since 1970 without Saturdays and Sundays, in seconds; nothing for a time on one of them.
std::optional<double> weekday_seconds(double seconds);

/// "81 h", "1 month", "2 days": in the largest unit that `usual` reaches; both in seconds.
std::string duration_text(double seconds, double usual);

}  // namespace whisker
