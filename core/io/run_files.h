// The two files a run keeps open: an append-only log, and the lock that lets one writer in. Neither
// is ever written through a link (see open_own_file).
#pragma once

#include "core/io/file.h"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace whisker {

/// Whether a run wrote this folder: it has a last/state.json of ours or, before the first
/// checkpoint, the logs and the lock of one.
bool is_run_folder(const std::filesystem::path& folder);

/// Opens `path` for writing, and creates it where it is not. Throws checkpoint when a link stands
/// there, or anything but a regular file with this one name; usage or disk as fail_disk.
FileDescriptor open_own_file(const FileCalls& calls, const std::filesystem::path& path, int flags);

/// Append-only text with every write checked (metrics.jsonl). Throws usage or disk as fail_disk.
class LogFile {
 public:
  /// Opens or creates the file, as open_own_file, and appends to what is there.
  explicit LogFile(std::filesystem::path path, const FileCalls& calls = system_file_calls());

  /// Appends `text` in one write, so that a reader sees whole lines.
  void append(std::string_view text);
  /// Bytes in the file: what a checkpoint stores and a resume passes to truncate_to.
  uint64_t offset() const { return offset_; }
  /// Cuts the file back to `offset`; throws checkpoint when the file is shorter than that.
  void truncate_to(uint64_t offset);
  /// Flushes to disk, so that the offset in a checkpoint never lies beyond the durable text.
  void sync();
  /// Nothing may be appended afterwards. Some file systems report only here what they could not
  /// write.
  void close();

 private:
  std::filesystem::path path_;
  const FileCalls& calls_;
  FileDescriptor fd_;
  uint64_t offset_ = 0;
};

/// Holds `folder` for the life of the object; the kernel drops it when the process dies. Locked are
/// the folder itself, so that no deleted file admits a second writer, and the file `lock` in it,
/// which names the owner and stands alone where network file systems lock no folders.
class FolderLock {
 public:
  /// Throws usage naming the owner's process id when another process holds the lock.
  explicit FolderLock(const std::filesystem::path& folder,
                      const FileCalls& calls = system_file_calls());

  /// Releases the lock; throws disk when `lock` could not be written.
  void close();

 private:
  std::filesystem::path path_;
  const FileCalls& calls_;
  FileDescriptor folder_;
  FileDescriptor file_;
};

}  // namespace whisker
