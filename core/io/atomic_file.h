// Files that are either the old one or the new one, whatever happens in between.
// Note [Order on disk]: write, fsync, close, rename, fsync of the folder. The data must be on disk
// before the name points at it, and the name is on disk only when the folder is. A failed fsync is
// never retried: the kernel has dropped the dirty pages, so a second fsync would falsely succeed.
#pragma once

#include "core/io/file.h"
#include "core/io/hash.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace whisker {

/// Writes a temporary in the destination's folder and renames it over the destination on commit.
/// Without commit, or after any error, the temporary is removed and the old file stands untouched.
class AtomicFile {
 public:
  /// Throws usage when the folder is missing or not writable, disk when writing fails.
  explicit AtomicFile(std::filesystem::path path, const FileCalls& calls = system_file_calls());
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  /// Appends bytes; throws disk when they cannot be written.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Makes the new content durable under the destination's name; throws disk. When only the last
  /// step fails (fsync of the folder), the new file is complete but may not survive a power cut.
  void commit();

  /// Bytes written so far and their XXH64.
  uint64_t size() const { return size_; }
  const Hash64& hash() const { return hash_; }

 private:
  void flush();
  void put(std::span<const std::byte> bytes);
  void sync();
  std::filesystem::path folder() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  const FileCalls& calls_;
  std::vector<std::byte> buffer_;
  Hash64 hash_;
  uint64_t size_ = 0;
  size_t unsynced_ = 0;  // bytes since the last fsync
  int fd_ = -1;
};

/// Writes `content` to `path` through an AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Removes the temporaries that killed writers left in `folder`; returns how many. Call it only
/// while holding the folder's lock, since a living writer's temporary would go too.
int remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace whisker
