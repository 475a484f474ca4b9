#include "apps/terminal/inputs.h"

#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/text.h"
#include "data/codec/unsupported_formats.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace whisker {

std::vector<std::string> expand_stdin(const std::vector<std::string>& words) {
  InputNames names(words);
  std::vector<std::string> all;
  for (;;) {
    const std::vector<std::string> some = names.next(std::numeric_limits<size_t>::max());
    if (some.empty()) return all;
    all.insert(all.end(), some.begin(), some.end());
  }
}

InputNames::InputNames(const std::vector<std::string>& words, bool walk)
    : walk_(walk), lines_(STDIN_FILENO, "standard input") {
  for (const std::string& word : words) {
    if (word == "-") {
      pending_.emplace_back();
      continue;
    }
    for (std::string& name : expanded(word)) pending_.emplace_back(std::move(name));
  }
}

std::vector<std::string> InputNames::next(size_t most) {
  std::vector<std::string> names;
  while (names.size() < most && !pending_.empty()) {
    if (std::optional<std::string>& name = pending_.front()) {
      names.push_back(std::move(*name));
      pending_.pop_front();
      continue;
    }
    if (!names.empty() && !lines_.waiting()) break;
    const std::optional<std::string> line = lines_.next();
    if (!line) {
      pending_.pop_front();
    } else if (!line->empty()) {
      const std::vector<std::string> found = expanded(*line);
      pending_.insert(pending_.begin(), found.begin(), found.end());
    }
  }
  return names;
}

std::optional<size_t> InputNames::count() const {
  const auto given = [](const std::optional<std::string>& name) { return name.has_value(); };
  return std::ranges::all_of(pending_, given) ? std::optional(pending_.size()) : std::nullopt;
}

std::vector<std::string> InputNames::expanded(const std::string& name) {
  std::error_code error;
  if (!walk_ || !std::filesystem::is_directory(name, error)) return {name};
  std::vector<std::string> paths;
  const std::filesystem::path folder(name);
  const FileWalk walk = walk_files(folder, name, OnUnreadable::list);
  std::vector<std::optional<SkippedFile>> skipped = skip_reasons(folder, walk.files);
  for (size_t i = 0; i < skipped.size(); ++i) {
    const std::string path = (folder / walk.files[i].path).string();
    if (skipped[i]) {
      skipped[i]->path = path;
      skipped_.push_back(std::move(*skipped[i]));
    } else {
      paths.push_back(path);
    }
  }
  for (const SkippedFile& part : walk.unreadable) paths.push_back((folder / part.path).string());
  return paths;
}

std::string weights_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  const std::filesystem::path best = std::filesystem::path(path) / "best.safetensors";
  fail(ErrorKind::checkpoint, "{}: expected a weights file, got a folder.{}", printable(path),
       std::filesystem::exists(best, error) ? fmt::format(" Give {}.", printable(best.string()))
                                            : "");
}

std::string bare_reason(const std::string& path, const std::string& reason) {
  for (const std::string& name : {path, printable(path)}) {
    if (reason.starts_with(name + ": ")) return reason.substr(name.size() + 2);
  }
  return reason;
}

void tell_unreadable(const std::string& path, const std::string& reason) {
  tell_error(fmt::format("{}: {}", path.empty() ? "''" : printable(path),
                         printable(bare_reason(path, reason))));
}

}  // namespace whisker
