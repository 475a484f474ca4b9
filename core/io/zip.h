// The stored entries of a zip archive, as torch.save writes them: nothing is decompressed or
// copied. Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3 (zip64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The directory of an archive over `bytes`, which must outlive it.
class ZipArchive {
 public:
  struct Entry {
    std::string_view name;
    uint64_t at = 0;  ///< of its record in the directory
  };

  /// Throws checkpoint, naming `file`, for damaged archives and two entries of one name.
  ZipArchive(std::span<const std::byte> bytes, std::string file);

  /// Sorted by name.
  const std::vector<Entry>& entries() const { return entries_; }
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The content of an entry; nothing when there is none. Throws checkpoint for compressed and
  /// encrypted entries, and for content of another CRC-32 than the directory says.
  std::optional<std::span<const std::byte>> read(std::string_view name) const;

 private:
  const Entry* find(std::string_view name) const;

  std::span<const std::byte> bytes_;
  std::string file_;
  std::vector<Entry> entries_;
};

}  // namespace whisker
