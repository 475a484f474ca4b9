#include "apps/terminal/inputs.h"

#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/text.h"
#include "core/work_progress.h"
#include "data/codec/unsupported_formats.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include <poll.h>
#include <unistd.h>

namespace whisker {

std::optional<std::string> LineReader::next() {
  size_t end = line_end();
  while (end == std::string::npos && fill(true)) end = line_end();
  if (end == std::string::npos && begin_ == buffer_.size()) return std::nullopt;
  const size_t stop = std::min(end, buffer_.size());
  std::string line = buffer_.substr(begin_, stop - begin_);
  begin_ = std::min(stop + 1, buffer_.size());
  return line;
}

bool LineReader::waiting() {
  while (line_end() == std::string::npos) {
    if (!fill(false)) return ended_ && begin_ < buffer_.size();
  }
  return true;
}

// Reads more; false at the end and, without `wait`, when nothing is there. Every read follows a
// poll, so that the descriptor may be non-blocking or not.
bool LineReader::fill(bool wait) {
  constexpr size_t longest_line = 16 << 20;
  std::array<char, 65536> block;
  while (!ended_) {
    const WaitScope waits(Waiting::outside);
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    const int count = ::poll(&ready, 1, wait ? -1 : 0);
    if (count == 0) return false;
    const ssize_t got = count < 0 ? -1 : ::read(fd_, block.data(), block.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail(ErrorKind::data, "{}: cannot read: {}.", name_, std::strerror(errno));
    ended_ = got == 0;
    buffer_.erase(0, begin_);
    begin_ = 0;
    buffer_.append(block.data(), static_cast<size_t>(got));
    if (buffer_.size() > longest_line && line_end() == std::string::npos) {
      fail(ErrorKind::data, "{}: expected lines of at most {}.", name_, human_bytes(longest_line));
    }
    if (!ended_) return true;
  }
  return false;
}

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
  const std::filesystem::path folder(name);
  folders_.push_back(name);
  const FileWalk walk = walk_files(folder, name, OnUnreadable::list);
  std::vector<SkippedFile> skipped;
  std::vector<std::string> paths;
  for (const WalkedFile& image : take_images(folder, walk.files, skipped)) {
    paths.push_back((folder / image.path).string());
    ++used_;
    links_ += image.link ? 1 : 0;
  }
  for (SkippedFile& file : skipped) {
    file.path = (folder / file.path).string();
    skipped_.push_back(std::move(file));
  }
  for (const SkippedFile& part : walk.unreadable) paths.push_back((folder / part.path).string());
  return paths;
}

std::string common_folder(const std::vector<std::string>& words) {
  namespace fs = std::filesystem;
  std::optional<fs::path> common;
  std::error_code error;
  for (const std::string& word : words) {
    if (word == "-" || fs::is_directory(word, error)) continue;
    const fs::path folder = fs::path(word).parent_path();
    if (!common) common = folder;
    fs::path shared;
    for (auto a = common->begin(), b = folder.begin();
         a != common->end() && b != folder.end() && *a == *b; ++a, ++b) {
      shared /= *a;
    }
    common = shared;
  }
  return common ? common->string() : "";
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
