// POSIX calls and the errors made of their errno.
#include "core/io/file.h"

#include "core/io/text.h"
#include "core/work_progress.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {

int FileCalls::open(const char* path, int flags, mode_t mode) const {
  return ::open(path, flags, mode);
}
ssize_t FileCalls::write(int fd, const void* bytes, size_t count) const {
  return ::write(fd, bytes, count);
}
int FileCalls::fsync(int fd) const {
  return ::fsync(fd);
}
int FileCalls::close(int fd) const {
  return ::close(fd);
}
int FileCalls::rename(const char* from, const char* to) const {
  return std::rename(from, to);
}
int FileCalls::unlink(const char* path) const {
  return ::unlink(path);
}
int FileCalls::flock(int fd, int operation) const {
  return ::flock(fd, operation);
}

const FileCalls& system_file_calls() {
  static const FileCalls calls;
  return calls;
}

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

void fail_disk(std::string_view doing, const std::filesystem::path& path, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case ENAMETOOLONG:
    case ELOOP:
      fail(ErrorKind::usage, "{}: cannot {}: {}. Check the path and its permissions.",
           printable(path.string()), doing, std::strerror(error));
    case ENOSPC:
    case EDQUOT:
      fail(ErrorKind::disk, "{}: cannot {}: {}. Free some space or choose another folder.",
           printable(path.string()), doing, std::strerror(error));
    case EFBIG:
      fail(ErrorKind::disk, "{}: cannot {}: {}. Raise the limit on file sizes (ulimit -f).",
           printable(path.string()), doing, std::strerror(error));
    default:
      fail(ErrorKind::disk, "{}: cannot {}: {}. Check the disk.", printable(path.string()), doing,
           std::strerror(error));
  }
}

void write_all(const FileCalls& calls, int fd, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  constexpr size_t mib = 1 << 20;  // at a time: each is progress
  while (!bytes.empty()) {
    const ssize_t written = calls.write(fd, bytes.data(), std::min(bytes.size(), mib));
    count_progress();
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_disk("write", path, errno);
    if (written == 0) fail_disk("write", path, EIO);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void sync_folder(const FileCalls& calls, const std::filesystem::path& folder) {
  const int fd = calls.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) fail_disk("open the folder", folder, errno);
  const int error = calls.fsync(fd) == 0 ? 0 : errno;
  if (calls.close(fd) != 0 && error == 0) fail_disk("close the folder", folder, errno);
  if (error != 0) fail_disk("flush the folder to disk", folder, error);
}

const char* file_type_name(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

namespace {

/// Throws `kind` when `path` cannot be opened for reading or is no such source.
FileDescriptor open_to_read(const std::filesystem::path& path, ErrorKind kind, Source source) {
  // O_NONBLOCK: opening a FIFO must report that it is one, not wait for its writer.
  const int wait = source == Source::file ? O_NONBLOCK : 0;
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | wait));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    fail(kind, "{}: cannot open: {}.", printable(path.string()), std::strerror(errno));
  }
  const bool accepted = source == Source::file ? S_ISREG(info.st_mode) : !S_ISDIR(info.st_mode);
  if (!accepted) {
    fail(kind, "{}: expected {}, got {}.", printable(path.string()),
         source == Source::file ? "a regular file" : "a file or a pipe",
         file_type_name(info.st_mode));
  }
  return fd;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t max_bytes, ErrorKind kind,
                      Source source) {
  const FileDescriptor fd = open_to_read(path, kind, source);
  std::string content;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    count_progress();
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(kind, "{}: cannot read: {}.", printable(path.string()), std::strerror(errno));
    if (got == 0) return content;
    if (content.size() + static_cast<size_t>(got) > max_bytes) {
      fail(kind, "{}: expected at most {}, the file is larger.", printable(path.string()),
           human_bytes(max_bytes));
    }
    content.append(block.data(), static_cast<size_t>(got));
  }
}

MappedFile::MappedFile(const std::filesystem::path& path, ErrorKind kind) {
  const FileDescriptor fd = open_to_read(path, kind, Source::file);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    fail(kind, "{}: cannot read: {}.", printable(path.string()), std::strerror(errno));
  }
  if (info.st_size == 0) return;
  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) {
    fail(kind, "{}: cannot map {}: {}.", printable(path.string()), human_bytes(size),
         std::strerror(errno));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace whisker
