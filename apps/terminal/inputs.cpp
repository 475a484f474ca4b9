#include "apps/terminal/inputs.h"

#include "apps/terminal/terminal.h"
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/work_progress.h"
#include "data/codec/decode.h"
#include "data/codec/image_end.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/text_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace whisker {
namespace {

constexpr std::string_view utf8_mark = "\xef\xbb\xbf";

}  // namespace

std::optional<std::string> LineReader::next() {
  size_t end = line_end();
  while (end == std::string::npos && fill(true)) end = line_end();
  if (end == std::string::npos && begin_ == buffer_.size()) return std::nullopt;
  const size_t stop = std::min(end, buffer_.size());
  std::string line = buffer_.substr(begin_, stop - begin_);
  begin_ = std::min(stop + 1, buffer_.size());
  const bool first = std::exchange(first_, false);
  if (first && line.starts_with(utf8_mark)) line.erase(0, utf8_mark.size());
  if (end_ == '\n' && line.ends_with('\r')) line.pop_back();
  if (const std::string_view format = first ? packed_format(line) : ""; !format.empty()) {
    fail(ErrorKind::data, "{}: expected a name or a text per line, got {}.", name_, format);
  }
  const bool utf16 = first && (line.starts_with("\xff\xfe") || line.starts_with("\xfe\xff"));
  if (utf16 || line.find('\0') != std::string::npos) refuse_bytes(line, utf16);
  return line;
}

// A line with NUL, or one that begins with UTF-16's byte order mark.
void LineReader::refuse_bytes(std::string_view line, bool utf16) const {
  const auto nul_at = [&](size_t parity) {  // there alone, and everywhere
    for (size_t i = 0; i < line.size(); ++i) {
      if ((line[i] == '\0') != (i % 2 == parity)) return false;
    }
    return line.size() >= 8;  // names of a letter, and NUL, are fewer
  };
  if (utf16 || nul_at(0) || nul_at(1)) {
    fail(ErrorKind::data, "{}: expected UTF-8, got UTF-16. Convert it: iconv -f UTF-16{} -t UTF-8.",
         name_,
         utf16       ? ""
         : nul_at(0) ? "BE"
                     : "LE");
  }
  const bool text = std::ranges::none_of(
      line, [](char c) { return c != '\0' && c != '\t' && static_cast<unsigned char>(c) < 0x20; });
  fail(ErrorKind::usage, "{}: expected a name or a text per line, got {}", name_,
       text ? "a line with NUL. Names that end with NUL, as of find -print0, need --null."
            : "bytes that are no text.");
}

bool LineReader::begins_as_image() {
  using namespace std::string_view_literals;
  constexpr size_t enough = 32;  // also for the formats that are not supported
  bool marked = false;
  const auto begin = [&] {
    std::string_view found = std::string_view(buffer_).substr(begin_);
    marked = found.starts_with(utf8_mark);
    if (marked) found.remove_prefix(utf8_mark.size());
    return found.substr(0, enough);
  };
  const auto is_image = [&] {
    const std::string_view found = begin();
    const bool bmp = found.starts_with("BM") && found.substr(2).size() >= 16 &&
                     found.substr(15, 3) == "\0\0\0"sv;  // of its header's size
    const bool webp =
        found.starts_with("RIFF") && found.size() >= 12 && found.substr(8, 4) == "WEBP";
    return bmp || webp || found.starts_with("\xff\xd8\xff") ||
           found.starts_with("\x89PNG\r\n\x1a\n") || begins_as_pnm_line();
  };
  // Its answer does not wait for more. PNG's signature has a line break in it.
  const auto is_name = [&] { return line_end() != std::string::npos && begin()[0] != '\x89'; };
  while (!is_image() && begin().size() < enough && !is_name() && fill(true)) {
  }
  if (is_image() && marked) {
    fail(ErrorKind::data,
         "{}: expected an image or a list of names, got an image behind UTF-8's byte order mark. "
         "Remove its first 3 bytes: tail -c +4.",
         name_);
  }
  if (is_image()) return true;
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 && c != '\t' && c != '\n' && c != '\r';
  };
  const UnsupportedFormat format = detect_unsupported(bytes_of(begin()));
  if (!format.name.empty() && std::ranges::any_of(begin(), is_control)) {
    fail(ErrorKind::data, "{}: expected an image or a list of names, got {}; {}.", name_,
         format.name, supported_formats);
  }
  return false;
}

// Names begin with P1 to P6 and a blank as well, but have letters behind it.
bool LineReader::begins_as_pnm_line() const {
  if (!begins_as_pnm(bytes_of(std::string_view(buffer_).substr(begin_)))) return false;
  const size_t other = buffer_.find_first_not_of("0123456789 \t\v\f\r", begin_ + 2);
  return other != std::string::npos && (buffer_[other] == '\n' || buffer_[other] == '#');
}

std::string LineReader::rest() {
  constexpr size_t most = size_t{1} << 31;
  whole_ = true;
  while (fill(true)) {
    if (buffer_.size() > most) {
      fail(ErrorKind::data, "{}: expected an image of at most {}.", name_, human_bytes(most));
    }
  }
  return buffer_.substr(std::exchange(begin_, buffer_.size()));
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
    if (!whole_ && buffer_.size() > longest_line && line_end() == std::string::npos) {
      fail(ErrorKind::data, "{}: expected lines of at most {}.", name_, human_bytes(longest_line));
    }
    if (!ended_) return true;
  }
  return false;
}

std::vector<std::string> expand_stdin(const std::vector<std::string>& words, bool null) {
  InputNames names(words, {.null = null});
  std::vector<std::string> all;
  for (;;) {
    const std::vector<std::string> some = names.next(std::numeric_limits<size_t>::max());
    if (some.empty()) return all;
    all.insert(all.end(), some.begin(), some.end());
  }
}

InputNames::InputNames(const std::vector<std::string>& words, const InputOptions& options)
    : options_(options), lines_(STDIN_FILENO, "standard input", options.null) {
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
    if (!std::exchange(decided_, true) && options_.images && !options_.null) {
      if (!names.empty()) {  // which are answered first
        decided_ = false;
        break;
      }
      if (lines_.begins_as_image()) names.push_back(copied_image());
    }
    if (!names.empty() && !lines_.waiting()) break;
    const std::optional<std::string> line = lines_.next();
    if (!line) {
      pending_.pop_front();
    } else {
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

std::vector<std::string> InputNames::known() const {
  std::vector<std::string> names;
  for (const std::optional<std::string>& name : pending_) {
    if (name) names.push_back(*name);
  }
  return names;
}

// An image file is read by its path, and a decoder may read it twice: standard input gets one.
std::string InputNames::copied_image() {
  const std::string bytes = lines_.rest();
  unused_ = bytes.size() - image_end(bytes_of(bytes)).value_or(bytes.size());
  image_file_ = FileDescriptor(::memfd_create("image", MFD_CLOEXEC));
  if (!image_file_) fail_disk("keep the image of", "standard input", errno);
  write_all(system_file_calls(), image_file_.get(), std::as_bytes(std::span(bytes)),
            "standard input");
  image_ = fmt::format("/proc/self/fd/{}", image_file_.get());
  return image_;
}

std::string InputNames::note() const {
  const std::string note = normalised_.note("path", "paths");
  if (unused_ == 0) return note;
  return fmt::format(
      "{}{}standard input: {} not used; for several images give their names, one per line", note,
      note.empty() ? "" : "\n",
      counted(static_cast<int64_t>(unused_), "byte behind the image's end is",
              "bytes behind the image's end are"));
}

std::vector<std::string> InputNames::expanded(const std::string& name) {
  std::error_code error;
  if (!options_.images) return {name};
  if (!name.empty() && !std::filesystem::exists(name, error)) {
    const std::optional<std::string> found = finder_.find(name);
    if (!found || *found == name) return {name};
    normalised_.add(name, *found);
    return expanded(*found);
  }
  if (!std::filesystem::is_directory(name, error)) return {name};
  const std::filesystem::path folder(name);
  folders_.push_back(name);
  FileWalk walk = walk_files(folder, name, OnUnreadable::list);
  std::vector<SkippedFile> skipped = std::move(walk.skipped);
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

std::string name_of_data(const std::filesystem::path& path) {
  if (path.empty()) return "";  // whoever reads the data refuses it
  const std::filesystem::path folder = std::filesystem::absolute(path) / "";
  return folder.lexically_normal().parent_path().filename().string();
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
