// Errors that a person can act on: what went wrong, where, what was expected, what was there, and
// what to do. The kind decides the exit code of the `whisker` program.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
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

/// Throws Error(kind) with a message in fmt's format syntax.
template <class... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace whisker
