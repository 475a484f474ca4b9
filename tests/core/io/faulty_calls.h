// File calls that record their order, and that fail one chosen call with a chosen errno.
#pragma once

#include "core/io/file.h"

#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>

namespace whisker {

class FaultyCalls : public FileCalls {
 public:
  /// Fails the `index`-th call (from 0) with `error`; a failed write first writes half its bytes.
  explicit FaultyCalls(int index = -1, int error = 0) : fail_index_(index), error_(error) {}

  int open(const char* path, int flags, mode_t mode) const override {
    const bool folder = (flags & O_DIRECTORY) != 0;
    if (fails(folder ? "open folder" : "open")) return -1;
    const int fd = FileCalls::open(path, flags, mode);
    if (folder) folder_fd_ = fd;
    return fd;
  }
  ssize_t write(int fd, const void* bytes, size_t count) const override {
    if (fails("write")) {
      if (count > 1) (void)FileCalls::write(fd, bytes, count / 2);
      errno = error_;
      return -1;
    }
    return FileCalls::write(fd, bytes, count);
  }
  int fsync(int fd) const override {
    return fails(fd == folder_fd_ ? "fsync folder" : "fsync") ? -1 : FileCalls::fsync(fd);
  }
  int close(int fd) const override {
    const bool failed = fails(fd == folder_fd_ ? "close folder" : "close");
    if (fd == folder_fd_) folder_fd_ = -1;    // a file may have this number next
    const int result = FileCalls::close(fd);  // a failed close(2) still frees the descriptor
    if (failed) errno = error_;
    return failed ? -1 : result;
  }
  int rename(const char* from, const char* to) const override {
    return fails("rename") ? -1 : FileCalls::rename(from, to);
  }
  int unlink(const char* path) const override {
    return fails("unlink") ? -1 : FileCalls::unlink(path);
  }
  int flock(int fd, int operation) const override {
    return fails(fd == folder_fd_ ? "flock folder" : "flock") ? -1
                                                              : FileCalls::flock(fd, operation);
  }

  const std::vector<std::string>& calls() const { return calls_; }
  const std::string& failed_call() const { return failed_call_; }

 private:
  bool fails(const char* call) const {
    const bool failed = static_cast<int>(calls_.size()) == fail_index_;
    calls_.push_back(call);
    if (failed) {
      failed_call_ = call;
      errno = error_;
    }
    return failed;
  }

  int fail_index_;
  int error_;
  mutable int folder_fd_ = -1;
  mutable std::vector<std::string> calls_;
  mutable std::string failed_call_;
};

}  // namespace whisker
