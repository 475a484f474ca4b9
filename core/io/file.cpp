// POSIX calls and the errors made of their errno.
#include "core/io/file.h"

#include "core/io/text.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
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
           path.string(), doing, std::strerror(error));
    case ENOSPC:
    case EDQUOT:
      fail(ErrorKind::disk, "{}: cannot {}: {}. Free some space or choose another folder.",
           path.string(), doing, std::strerror(error));
    default:
      fail(ErrorKind::disk, "{}: cannot {}: {}. Check the disk.", path.string(), doing,
           std::strerror(error));
  }
}

void write_all(const FileCalls& calls, int fd, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = calls.write(fd, bytes.data(), bytes.size());
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

std::string read_file(const std::filesystem::path& path, size_t max_bytes, ErrorKind kind) {
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) fail(kind, "{}: cannot open: {}.", path.string(), std::strerror(errno));
  std::string content;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t got = ::read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(kind, "{}: cannot read: {}.", path.string(), std::strerror(errno));
    if (got == 0) return content;
    if (content.size() + static_cast<size_t>(got) > max_bytes) {
      fail(kind, "{}: expected at most {}, the file is larger.", path.string(),
           human_bytes(max_bytes));
    }
    content.append(block.data(), static_cast<size_t>(got));
  }
}

MappedFile::MappedFile(const std::filesystem::path& path, ErrorKind kind) {
  // O_NONBLOCK: opening a pipe must report "not a regular file", not wait for its writer.
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail(kind, "{}: cannot open: {}.", path.string(), std::strerror(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) {
    fail(kind, "{}: cannot read: {}.", path.string(), std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) fail(kind, "{}: expected a regular file.", path.string());
  if (info.st_size == 0) return;
  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) {
    fail(kind, "{}: cannot map {}: {}.", path.string(), human_bytes(size), std::strerror(errno));
  }
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace whisker
