#include "core/io/output_file.h"

#include "core/io/run_files.h"
#include "core/io/text.h"

#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace whisker {
namespace {

namespace fs = std::filesystem;

// The number N of a path /proc/self/fd/N, or .../task/T/fd/N of a thread; -1 for other paths.
int descriptor_of(const fs::path& path) {
  std::error_code error;
  const fs::path folder = fs::canonical(path.parent_path(), error);
  if (error || folder.filename() != "fd") return -1;
  const fs::path process = fs::canonical("/proc/self", error);
  const fs::path of = folder.parent_path();
  if (error || (of != process && of.parent_path() != process / "task")) return -1;
  const std::string name = path.filename().string();
  int number = -1;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  return failed == std::errc() && end == name.data() + name.size() ? number : -1;
}

bool is_own(const OutputFormat& format, const fs::path& path) {
  const MappedFile file(path, ErrorKind::usage);
  const std::string_view content(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
  return format.is_own(content) && content.find(format.holds) != content.npos;
}

}  // namespace

OutputTarget output_target(const fs::path& path, const std::string& name) {
  constexpr int most_links = 40;  // as the kernel
  OutputTarget target{.path = path};
  struct stat info {};
  for (int links = 0; links < most_links; ++links) {
    target.descriptor = descriptor_of(target.path);
    if (target.descriptor >= 0 || ::lstat(target.path.c_str(), &info) != 0) break;
    if (!S_ISLNK(info.st_mode)) break;
    std::error_code error;
    const fs::path to = fs::read_symlink(target.path, error);
    if (error) fail_disk("read the link", target.path, error.value());
    const fs::path next = target.path.parent_path() / to;  // `to` itself where it is absolute
    // Another process's pipe, /proc/PID/fd/N, has no name: the kernel alone follows the link.
    if (::lstat(next.c_str(), &info) != 0 && ::stat(target.path.c_str(), &info) == 0) break;
    target.path = next;
  }
  target.exists = target.descriptor >= 0 ? ::fstat(target.descriptor, &info) == 0
                                         : ::stat(target.path.c_str(), &info) == 0;
  struct stat link {};
  if (!target.exists && ::lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode)) {
    fail(ErrorKind::usage, "{} is a link to nothing that exists. Name the file itself.", name);
  }
  if (!target.exists) return target;
  target.device = info.st_dev;
  target.inode = info.st_ino;
  target.is_stream = target.descriptor >= 0 || S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode);
  if (!target.is_stream && !S_ISREG(info.st_mode)) {
    fail(ErrorKind::usage, "{}: expected the name of a file, got {}.", name,
         S_ISBLK(info.st_mode) ? "a disk" : file_type_name(info.st_mode));
  }
  return target;
}

bool is_run_file(const fs::path& path) {
  std::error_code error;
  const fs::path parent = path.parent_path();
  const fs::path folder = fs::canonical(parent.empty() ? "." : parent, error);
  if (error) return false;
  const bool within = folder.filename() == "last" || folder.filename() == "tensorboard";
  if (within && is_run_folder(folder.parent_path())) return true;
  if (!is_run_folder(folder)) return false;
  static constexpr std::string_view names[] = {"config.yaml",
                                               "metrics.jsonl",
                                               "metrics.csv",
                                               "log.txt",
                                               "log.rank*.txt",
                                               "best.safetensors",
                                               "split.csv",
                                               "lock",
                                               "trace.json",
                                               "trace.rank*.json",
                                               "find_lr.svg",
                                               "last",
                                               "report.html",
                                               "examples.safetensors",
                                               "validation.safetensors",
                                               "tensorboard"};
  for (const std::string_view name : names) {
    if (matches_pattern(name, path.filename().string())) return true;
  }
  return false;
}

OutputFile::OutputFile(const OutputTarget& target, std::string name, const OutputFormat& format,
                       bool force, const FileCalls& calls)
    : target_(target), name_(std::move(name)), format_(format), force_(force), calls_(calls) {
  if (!target_.is_stream) {
    check_replaceable();
    file_ = std::make_unique<AtomicFile>(target_.path, calls_);
    return;
  }
  struct stat info {};
  if (target_.descriptor < 0 && ::stat(target_.path.c_str(), &info) == 0 &&
      S_ISFIFO(info.st_mode)) {
    if (::faccessat(AT_FDCWD, target_.path.c_str(), W_OK, AT_EACCESS) != 0)
      fail_disk("write", target_.path, errno);
    return;
  }
  open_stream();
}

void OutputFile::open_stream() {
  // A descriptor's own position: /dev/stdout may be a file that other results go to as well.
  stream_ =
      FileDescriptor(target_.descriptor >= 0
                         ? ::fcntl(target_.descriptor, F_DUPFD_CLOEXEC, 3)
                         : calls_.open(target_.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY, 0));
  if (!stream_) fail_disk("open", target_.path, errno);
  const int mode = ::fcntl(stream_.get(), F_GETFL);
  if (mode >= 0 && (mode & O_ACCMODE) == O_RDONLY) fail_disk("write", target_.path, EACCES);
}

Replaced OutputFile::check_replaceable() const {
  const OutputTarget now = output_target(target_.path, name_);
  if (is_run_file(now.path)) {
    fail(ErrorKind::usage,
         "{} is a file of the run {}, which only the run itself writes. Name another file.", name_,
         printable(fs::absolute(now.path).parent_path().string()));
  }
  if (!now.exists) return Replaced::nothing;
  if (now.is_stream) {
    fail(ErrorKind::usage, "{}: expected the name of a file, got a device or a pipe.", name_);
  }
  if (force_) return Replaced::forced;
  if (format_.is_own == nullptr) {
    fail(ErrorKind::usage,
         "{} exists, and {} never replaces a file unasked. Name another file, or add --force.",
         name_, format_.name);
  }
  if (!is_own(format_, now.path)) {
    fail(ErrorKind::usage,
         "{} exists and is not {}, or was edited since. Name another file, or add --force to "
         "replace it.",
         name_, format_.name);
  }
  if (::faccessat(AT_FDCWD, now.path.c_str(), W_OK, AT_EACCESS) != 0) {
    fail(ErrorKind::usage,
         "{} exists and is read-only. Name another file, or add --force to replace it.", name_);
  }
  return Replaced::own;
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (file_) return file_->write(bytes);
  if (!stream_) open_stream();
  write_all(calls_, stream_.get(), bytes, target_.path);
}

Replaced OutputFile::commit() {
  if (file_) {
    const Replaced replaced = check_replaceable();
    file_->commit();
    file_.reset();
    return replaced;
  }
  if (!stream_) open_stream();  // of an empty output
  if (calls_.close(stream_.release()) != 0) fail_disk("close", target_.path, errno);
  return Replaced::nothing;
}

}  // namespace whisker
