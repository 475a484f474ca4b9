// What of a run's log belongs into its report.
#include "core/io/text.h"
#include "train/report/run_record.h"

#include <algorithm>
#include <set>
#include <vector>

namespace whisker {
namespace {

// Blocks of the log that the report shows otherwise, by how their first line begins; the indented
// lines after it belong to it.
constexpr std::string_view shown_otherwise[] = {"epoch ",
                                                "validation after",
                                                "loss over",
                                                "memory of",
                                                "data and network ready",
                                                "first step ",
                                                "finished ",
                                                "stopped",
                                                "continue with:",
                                                "time is up",
                                                "the last weights",
                                                "test: ",
                                                "report: ",
                                                "nothing to do: ",
                                                "began ",
                                                "resumed "};

constexpr std::string_view endings[] = {"finished ", "stopped", "error: "};

bool begins_with_any(std::string_view line, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings, [&](auto one) { return line.starts_with(one); });
}

std::vector<std::string_view> lines_of(std::string_view log) {
  std::vector<std::string_view> lines;
  for (size_t begin = 0, end = 0; begin < log.size(); begin = end + 1) {
    end = std::min(log.find('\n', begin), log.size());
    lines.push_back(log.substr(begin, end - begin));
  }
  return lines;
}

// "2026-11-28 08:45:28 +01:00" behind `word`; "" where `line` is another, or was edited.
std::string_view date_behind(std::string_view word, std::string_view line) {
  constexpr std::string_view form = "0000-00-00 00:00:00 +00:00";
  if (!line.starts_with(word) || line.size() != word.size() + form.size()) return {};
  line.remove_prefix(word.size());
  for (size_t i = 0; i < form.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    const bool sign = form[i] == '+' && line[i] == '-';
    if (form[i] == '0' ? !digit : line[i] != form[i] && !sign) return {};
  }
  return line;
}

// What may stand before a path.
bool opens_path(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\'' || c == '"' || c == '(' || c == '[' ||
         c == '=' || c == ',' || c == ':' || c == '{';
}
bool ends_path(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\'' || c == '"' || c == ')' || c == ']' ||
         c == ',' || c == ':' || c == ';' || c == '}';
}

}  // namespace

std::string without_folders(std::string_view text) {
  std::string shown;
  for (size_t i = 0; i < text.size();) {
    const bool home = text.substr(i).starts_with("~/");
    const bool path = (home || (text[i] == '/' && text.substr(i, 2) != "//")) &&
                      (i == 0 || opens_path(text[i - 1]));
    if (!path) {
      shown += text[i++];
      continue;
    }
    // Within quotes a path may have spaces.
    const char quote = i > 0 && (text[i - 1] == '\'' || text[i - 1] == '"') ? text[i - 1] : 0;
    size_t end = quote ? std::min(text.find(quote, i), text.find('\n', i)) : i;
    if (!quote) {
      while (end < text.size() && !ends_path(text[end])) ++end;
    }
    std::string_view whole = text.substr(i, std::min(end, text.size()) - i);
    i += whole.size();
    while (whole.size() > 1 && whole.ends_with('/')) whole.remove_suffix(1);
    const std::string_view last = whole.substr(whole.rfind('/') + 1);
    shown += last.empty() ? std::string(whole) : "…/" + std::string(last);
  }
  return shown;
}

std::string told_of_run(std::string_view log) {
  std::string told;
  // A resume begins with the line of the start, and says most of the others again.
  const std::string_view first = log.substr(0, log.find('\n'));
  std::set<std::string_view> before, lines;
  bool kept = true;
  for (const std::string_view line : lines_of(log)) {
    const bool indented = line.empty() || line.starts_with(' ');
    if (!indented) kept = !begins_with_any(line, shown_otherwise);
    if (line == first) before.merge(lines);
    if (!kept || line.empty()) continue;
    lines.insert(line);
    if (!before.contains(line)) told += std::string(line) + "\n";
  }
  return without_folders(told);
}

RunDates dates_of_run(std::string_view log) {
  RunDates dates;
  std::string_view resumes;  // unless there is nothing to do
  for (const std::string_view line : lines_of(log)) {
    if (dates.began.empty()) dates.began = date_behind("began ", line);
    if (const auto date = date_behind("resumed ", line); !date.empty()) resumes = date;
    constexpr std::string_view place = "continues ";  // "at epoch 8, step 2,053"
    if (!line.starts_with("continues at") || resumes.empty()) continue;
    dates.resumed.push_back(fmt::format("{}, {}", resumes, line.substr(place.size())));
    resumes = {};
  }
  return dates;
}

std::string how_it_ended(std::string_view log) {
  std::string ended;
  for (const std::string_view line : lines_of(log)) {
    if (line.starts_with("epoch ") || line.starts_with("continues at")) ended.clear();
    if (begins_with_any(line, endings)) ended = line;
  }
  return without_folders(ended);
}

}  // namespace whisker
