// Appending with O_APPEND, locking with flock(2).
#include "core/io/run_files.h"

#include "core/io/text.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace {

// The process id in `lock`; what else a link or a slip has put there is not repeated.
std::string owner_in(const std::filesystem::path& lock) {
  std::string owner;
  try {
    owner = read_file(lock, 64, ErrorKind::usage);
  } catch (const Error&) {  // it is gone, or was never a file
  }
  if (owner.ends_with('\n')) owner.pop_back();
  const bool number = !owner.empty() && owner.find_first_not_of("0123456789") == std::string::npos;
  return number ? owner : "of unknown id";
}

}  // namespace

bool is_run_folder(const std::filesystem::path& folder) {
  struct stat info {};
  if (::stat((folder / "last").c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
  const auto has = [&](const char* name) {
    return ::lstat((folder / name).c_str(), &info) == 0 && S_ISREG(info.st_mode);
  };
  if (has("lock") && has("metrics.jsonl")) return true;
  if (!has("last/state.json")) return false;
  constexpr std::string_view first = R"({"version":)", second = R"("model":{"name":"model-)";
  std::string begin(128, '\0');
  const FileDescriptor fd(::open((folder / "last/state.json").c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t got = fd ? ::read(fd.get(), begin.data(), begin.size()) : 0;
  begin.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return begin.starts_with(first) && begin.find(second) != std::string::npos;
}

FileDescriptor open_own_file(const FileCalls& calls, const std::filesystem::path& path, int flags) {
  const auto refuse = [&](std::string_view got) {
    fail(ErrorKind::checkpoint,
         "{}: expected a regular file of the run's own, got {}. A run never writes through links. "
         "Replace it by the file itself or a copy.",
         printable(path.string()), got);
  };
  FileDescriptor fd(calls.open(
      path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  const int error = errno;
  struct stat info {};
  if (!fd) {
    const bool there = ::lstat(path.c_str(), &info) == 0;
    if (there && !S_ISREG(info.st_mode)) refuse(file_type_name(info.st_mode));
    fail_disk("open", path, error);
  }
  if (::fstat(fd.get(), &info) != 0) fail_disk("open", path, errno);
  if (!S_ISREG(info.st_mode)) refuse(file_type_name(info.st_mode));
  if (info.st_nlink > 1) refuse(fmt::format("one with {} names (hard links)", info.st_nlink));
  return fd;
}

LogFile::LogFile(std::filesystem::path path, const FileCalls& calls)
    : path_(std::move(path)), calls_(calls), fd_(open_own_file(calls, path_, O_WRONLY | O_APPEND)) {
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
         "{}: expected at least {} bytes from the checkpoint, got {}. The log was shortened or "
         "replaced after the checkpoint.",
         printable(path_.string()), offset, offset_);
  }
  if (::ftruncate(fd_.get(), static_cast<off_t>(offset)) != 0) {
    fail_disk("truncate", path_, errno);
  }
  offset_ = offset;
}

void LogFile::sync() {
  if (calls_.fsync(fd_.get()) != 0) fail_disk("flush to disk", path_, errno);
}

void LogFile::close() {
  if (calls_.close(fd_.release()) != 0) fail_disk("close", path_, errno);
}

FolderLock::FolderLock(const std::filesystem::path& folder, const FileCalls& calls)
    : path_(folder / "lock"), calls_(calls) {
  const auto locks = [&](const FileDescriptor& fd) {
    if (calls_.flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return true;
    if (errno != EWOULDBLOCK) return false;
    fail(ErrorKind::usage,
         "{}: expected a free run folder, process {} is writing to it. Stop it or wait for it.",
         printable(folder.string()), owner_in(path_));
  };
  folder_ = FileDescriptor(calls_.open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
  if (!folder_) fail_disk("open the folder", folder, errno);
  locks(folder_);  // or not, on a network file system
  file_ = open_own_file(calls_, path_, O_WRONLY);
  if (!locks(file_)) fail_disk("lock", path_, errno);
  const std::string owner = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file_.get(), 0) != 0) fail_disk("truncate", path_, errno);
  write_all(calls_, file_.get(), std::as_bytes(std::span(owner)), path_);
}

void FolderLock::close() {
  const int closed = calls_.close(file_.release());
  const int error = errno;
  folder_ = FileDescriptor();
  if (closed != 0) fail_disk("close", path_, error);
}

}  // namespace whisker
