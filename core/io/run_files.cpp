// Appending with O_APPEND, locking with flock(2).
#include "core/io/run_files.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {

LogFile::LogFile(std::filesystem::path path, const FileCalls& calls)
    : path_(std::move(path)), calls_(calls) {
  fd_ = FileDescriptor(calls_.open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd_) fail_disk("open", path_, errno);
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) fail_disk("read the size", path_, errno);
  offset_ = static_cast<uint64_t>(info.st_size);
}

void LogFile::append(std::string_view text) {
  write_all(calls_, fd_.get(), std::as_bytes(std::span(text)), path_);
  offset_ += text.size();
}

void LogFile::truncate_to(uint64_t offset) {
  if (offset > offset_) {
    fail(ErrorKind::checkpoint,
         "{}: expected at least {} bytes, as the checkpoint says, got {}. The log was shortened or "
         "replaced after the checkpoint.",
         path_.string(), offset, offset_);
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(offset)) != 0) {
    fail_disk("truncate", path_, errno);
  }
  offset_ = offset;
}

void LogFile::sync() {
  if (calls_.fsync(fd_.get()) != 0) fail_disk("flush to disk", path_, errno);
}

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "lock";
  fd_ = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd_) fail_disk("open", path, errno);
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail_disk("lock", path, errno);
    std::string owner = read_file(path, 64, ErrorKind::usage);
    if (owner.ends_with('\n')) owner.pop_back();
    fail(ErrorKind::usage,
         "{}: expected a free run folder, process {} is writing to it. Stop it or wait for it.",
         folder.string(), owner.empty() ? "of unknown id" : owner);
  }
  const std::string owner = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd_.get(), 0) != 0) fail_disk("truncate", path, errno);
  write_all(system_file_calls(), fd_.get(), std::as_bytes(std::span(owner)), path);
}

}  // namespace whisker
