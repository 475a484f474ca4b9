// Errors that a person can act on: what went wrong, where, what was expected, what was there, and
// what to do. The kind decides the exit code of the `whisker` program.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

namespace whisker {

/// Kinds of failure; the numeric value is the program's exit code.
enum class ErrorKind : int {
  internal = 1,    ///< a fault of ours
  usage = 2,       ///< wrong call, shapes, command line or configuration
  data = 3,        ///< unreadable or unsuitable input data
  checkpoint = 4,  ///< weights or checkpoint files
  device = 5,      ///< no such device, out of memory
  disk = 6,        ///< disk full or failing
  diverged = 7,    ///< NaN or Inf in loss or gradients
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  int exit_code() const { return static_cast<int>(kind_); }

 private:
  ErrorKind kind_;
};

/// Memory that a device does not have; of kind device.
class OutOfMemory : public Error {
 public:
  OutOfMemory(const std::string& message, int64_t capacity_bytes)
      : Error(ErrorKind::device, message), capacity_bytes_(capacity_bytes) {}
  /// What the device could have given in all: what was held, and what was free beside it.
  int64_t capacity_bytes() const { return capacity_bytes_; }

 private:
  int64_t capacity_bytes_;
};

/// An argument of fail() whose line breaks belong to the message: a table, a list.
struct MessageLines {
  std::string_view text;
};

namespace detail {

template <class T>
inline constexpr bool is_string = std::is_same_v<std::remove_cvref_t<T>, std::string> ||
                                  std::is_same_v<std::remove_cvref_t<T>, std::string_view>;

inline std::string on_one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\x0a";
    } else {
      line += c;
    }
  }
  return line;
}

/// How fmt sees an argument of fail().
template <class T>
using Shown =
    std::conditional_t<std::is_same_v<std::remove_cvref_t<T>, MessageLines>, std::string_view,
                       std::conditional_t<is_string<T>, std::string, T>>;

template <class T>
Shown<T> shown(std::remove_reference_t<T>& value) {
  if constexpr (std::is_same_v<std::remove_cvref_t<T>, MessageLines>) {
    return value.text;
  } else if constexpr (is_string<T>) {
    return on_one_line(value);
  } else {
    return std::forward<T>(value);
  }
}

}  // namespace detail

/// Throws Error(kind) with a message in fmt's format syntax. Strings among the arguments may be
/// foreign (names, paths, lines of a file): their line breaks are escaped, so that none of them
/// begins a line of the message. A literal or another error's what() keeps its line breaks.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<detail::Shown<Args>...> format,
                       Args&&... args) {
  throw Error(kind, fmt::format(format, detail::shown<Args>(args)...));
}

}  // namespace whisker
