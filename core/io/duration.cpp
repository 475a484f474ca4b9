#include "core/io/duration.h"

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace whisker {
namespace {

std::string time_text(const std::tm& time) {
  char text[64];
  const size_t size = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %z", &time);
  const std::string shown(text, size);  // "+0100" at its end
  return size < 2 ? shown : shown.substr(0, size - 2) + ":" + shown.substr(size - 2);
}

}  // namespace

std::string human_seconds(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string local_time_text(std::time_t time) {
  std::tm parts{};
  return localtime_r(&time, &parts) ? time_text(parts) : "";
}

std::string utc_text(std::time_t time) {
  std::tm parts{};
  return gmtime_r(&time, &parts) ? time_text(parts) : "";
}

}  // namespace whisker
