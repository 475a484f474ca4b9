// Edit distance, excerpts and byte counts for messages.
#include "core/io/text.h"

#include "core/io/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace whisker {
namespace {

// Levenshtein distance in which two neighbours that changed places are one slip (optimal string
// alignment), with three rows.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  std::iota(previous.begin(), previous.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    current[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substitution = previous[j] + (a[i] == b[j] ? 0 : 1);
      current[j + 1] = std::min({substitution, previous[j + 1] + 1, current[j] + 1});
      const bool swapped = i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j];
      if (swapped) current[j + 1] = std::min(current[j + 1], before[j - 1] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

// Takes one code point, or a byte that is none, off the start of `text` and returns it escaped.
std::string take_printable(std::string_view& text) {
  const size_t length = std::max<size_t>(1, utf8_sequence_length(text));
  const std::string_view sequence = text.substr(0, length);
  const bool valid = utf8_sequence_length(text) > 0;
  text.remove_prefix(length);
  const char32_t c = valid ? code_point(sequence) : static_cast<uint8_t>(sequence[0]);
  if (valid && !is_control(c)) return std::string(sequence);
  return length == 1 ? fmt::format("\\x{:02x}", uint32_t{c})
                     : fmt::format("\\u{:04x}", uint32_t{c});
}

// Whether `text` begins with a line break behind which no text begins a line.
bool ends_own_line(std::string_view text) {
  if (!text.starts_with('\n')) return false;
  text.remove_prefix(1);
  return text.empty() || text.starts_with('\n') || text.starts_with("  ");
}

}  // namespace

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  size_t best_distance = SIZE_MAX;
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t limit = std::max<size_t>(1, longer / 3);
    if (longer - std::min(name.size(), candidate.size()) > limit) continue;  // at least so far
    const size_t distance = edit_distance(name, candidate);
    if (distance <= limit && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

bool matches_pattern(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string printable(std::string_view text, KeptLines kept) {
  std::string shown;
  while (!text.empty()) {
    const bool keeps = kept == KeptLines::all ? text[0] == '\n' || text[0] == '\t'
                                              : kept == KeptLines::indented && ends_own_line(text);
    if (keeps) {
      shown += text[0];
      text.remove_prefix(1);
    } else {
      shown += take_printable(text);
    }
  }
  return shown;
}

std::string indented(std::string_view text) {
  std::string lines;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((i == 0 || text[i - 1] == '\n') && text[i] != '\n') lines += "  ";
    lines += text[i];
  }
  return lines;
}

std::string excerpt(std::string_view text) {
  constexpr int max_code_points = 60;
  std::string quoted = "'";
  for (int i = 0; i < max_code_points && !text.empty(); ++i) quoted += take_printable(text);
  return quoted + (text.empty() ? "'" : "...'");
}

std::string grouped(int64_t number) {
  std::string text = fmt::to_string(number);
  for (size_t at = text.size(), first = number < 0 ? 1 : 0; at > first + 3;) {
    at -= 3;
    text.insert(at, 1, ',');
  }
  return text;
}

std::string human_bytes(uint64_t bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024.0 && unit + 1 < units.size()) {
    value /= 1024.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  static constexpr std::pair<std::string_view, double> units[] = {
      {"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
      {"TiB", 0x1p40}, {"kB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto* const known =
      std::ranges::find(units, unit, &std::pair<std::string_view, double>::first);
  if (known == std::end(units) || number * known->second >= 0x1p63) return std::nullopt;
  return static_cast<int64_t>(number * known->second);
}

}  // namespace whisker
