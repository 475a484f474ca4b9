// Raw descriptors with every call checked, and the two ways to read a file: whole, or mapped.
// std::ofstream hides a full disk, so nothing in Whisker writes through it.
#pragma once

#include "core/error.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace whisker {

/// The system calls that writers use, with their POSIX results and errno. Tests record or fail
/// them.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode) const;
  virtual ssize_t write(int fd, const void* bytes, size_t count) const;
  virtual int fsync(int fd) const;
  virtual int close(int fd) const;
  virtual int rename(const char* from, const char* to) const;
  virtual int unlink(const char* path) const;
  virtual int flock(int fd, int operation) const;
};

/// The operating system's own calls.
const FileCalls& system_file_calls();

/// Owns one descriptor and closes it; movable. `close` failures are only seen through FileCalls.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_ = -1;
};

/// Throws for a failed call on `path`: usage when the path itself is wrong (missing folder, no
/// permission, a folder), disk otherwise. `doing` reads like "write".
[[noreturn]] void fail_disk(std::string_view doing, const std::filesystem::path& path, int error);

/// Writes all of `bytes`, resuming after signals and partial writes; throws as fail_disk.
void write_all(const FileCalls& calls, int fd, std::span<const std::byte> bytes,
               const std::filesystem::path& path);

/// fsync of a folder, which makes a rename in it survive a power cut; throws as fail_disk.
void sync_folder(const FileCalls& calls, const std::filesystem::path& folder);

/// "a folder", "a pipe" and so on: what a file of this st_mode is, for errors.
const char* file_type_name(mode_t mode);

/// What may be opened for reading.
enum class Source : uint8_t {
  file,    ///< a regular file, for those found in folders and caches: a FIFO would block
  stream,  ///< also a pipe or a terminal, which may block: for those that a user names
};

/// Whole content of a source. Throws `kind` when it cannot be opened or read, is no such source, or
/// is over `max_bytes`.
std::string read_file(const std::filesystem::path& path, size_t max_bytes, ErrorKind kind,
                      Source source = Source::file);

/// A regular file mapped read-only; nothing is copied. The file must not be truncated while mapped:
/// Whisker replaces files by rename, which leaves a mapping intact.
class MappedFile {
 public:
  /// Throws `kind` when the file is missing, unreadable or not a regular file.
  MappedFile(const std::filesystem::path& path, ErrorKind kind);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace whisker
