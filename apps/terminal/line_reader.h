// Reads lines of a file or pipe as they arrive.
#pragma once

#include <optional>
#include <string>

namespace whisker {

class LineReader {
 public:
  /// Reads descriptor `fd`, which stays open; errors name it `name`.
  LineReader(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  /// Waits for the next line, without its end; nullopt at the end of the file. Throws data, also
  /// for a line of more than 16 MiB.
  std::optional<std::string> next();
  /// Whether next() would return a line without waiting.
  bool waiting();

 private:
  bool fill(bool wait);
  size_t line_end() const { return buffer_.find('\n', begin_); }

  int fd_;
  std::string name_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not yet returned
  bool ended_ = false;
};

}  // namespace whisker
