// Times for messages.
#pragma once

#include <ctime>
#include <string>

namespace whisker {

/// "1 h 02 min", "3 min 05 s", "4.2 s".
std::string human_seconds(double seconds);

/// "2026-11-28 08:45:28 +01:00": local time with its offset from UTC.
std::string local_time_text(std::time_t time);
/// "2026-11-28 07:45:28 +00:00": the time in UTC.
std::string utc_text(std::time_t time);

}  // namespace whisker
