// Files and folders that were not there before.
#include "data/files/new_file.h"

#include "core/error.h"
#include "core/io/text.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>

namespace whisker {

void write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                    const FileCalls& calls) {
  FileDescriptor fd(calls.open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd) fail_disk("create", path, errno);
  try {
    write_all(calls, fd.get(), bytes, path);
    if (calls.close(fd.release()) != 0) fail_disk("close", path, errno);
  } catch (...) {
    calls.unlink(path.c_str());
    throw;
  }
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_disk("create", folder, error.value());
}

void make_empty_folder(const std::filesystem::path& folder, const char* what) {
  make_folders(folder);
  std::error_code error;
  const bool empty = std::filesystem::is_empty(folder, error);
  if (error) fail_disk("read", folder, error.value());
  if (!empty) {
    fail(ErrorKind::usage, "{}: {} is not empty. Name a new folder, or remove it first.", what,
         printable(folder.string()));
  }
}

}  // namespace whisker
