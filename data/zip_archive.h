// Reading zip archives from strangers: sizes are capped before and while unpacking, names are only
// handed out, never used as paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace whisker {

struct ZipLimits {
  uint64_t max_files = 0;
  uint64_t max_file_bytes = 0;
  uint64_t max_total_bytes = 0;  ///< 0: 64 times the archive and 1 GiB more
};

struct ZipEntry {
  uint64_t index = 0;
  std::string name;    ///< as stored
  uint64_t bytes = 0;  ///< unpacked, as the archive says
};

class ZipArchive {
 public:
  /// Throws data for a file that is no zip archive or has too many entries.
  ZipArchive(const std::filesystem::path& path, const ZipLimits& limits);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  /// All files, folders left out.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  /// The unpacked content, its checksum verified. Throws data when it is damaged, encrypted, or
  /// larger than it said or than the limits, alone or with all that was read before.
  std::string read(const ZipEntry& entry);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::string name_;
  ZipLimits limits_;
  uint64_t total_bytes_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace whisker
