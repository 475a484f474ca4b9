// Every read follows a poll, so that a descriptor may be non-blocking or not.
#include "apps/terminal/line_reader.h"

#include "core/error.h"
#include "core/io/text.h"

#include <array>
#include <cerrno>
#include <cstring>

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

// Reads more; false at the end and, without `wait`, when nothing is there.
bool LineReader::fill(bool wait) {
  constexpr size_t longest_line = 16 << 20;
  std::array<char, 65536> block;
  while (!ended_) {
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

}  // namespace whisker
