// The two files a run keeps open: an append-only log, and the lock that lets one writer in.
#pragma once

#include "core/io/file.h"

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace whisker {

/// Append-only text with every write checked (metrics.jsonl). Throws usage or disk as fail_disk.
class LogFile {
 public:
  /// Opens or creates the file and appends to what is there.
  explicit LogFile(std::filesystem::path path, const FileCalls& calls = system_file_calls());

  /// Appends `text` in one write, so that a reader sees whole lines.
  void append(std::string_view text);
  /// Bytes in the file: what a checkpoint stores and a resume passes to truncate_to.
  uint64_t offset() const { return offset_; }
  /// Cuts the file back to `offset`; throws checkpoint when the file is shorter than that.
  void truncate_to(uint64_t offset);
  /// Flushes to disk, so that the offset in a checkpoint never lies beyond the durable text.
  void sync();

 private:
  std::filesystem::path path_;
  const FileCalls& calls_;
  FileDescriptor fd_;
  uint64_t offset_ = 0;
};

/// Holds `folder/lock` for the life of the object; the kernel drops it when the process dies.
class FolderLock {
 public:
  /// Throws usage naming the owner's process id when another process holds the lock.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  FileDescriptor fd_;
};

}  // namespace whisker
