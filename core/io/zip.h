// The stored entries of a zip archive, as torch.save writes them: nothing is decompressed or
// copied. Format: PKWARE's APPNOTE.TXT, sections 4.3 and 4.5.3 (zip64).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

namespace whisker {

/// Bytes of each entry by its name, over `archive`. Throws checkpoint, naming `file`, for damaged
/// archives, compressed or encrypted entries, and two entries of one name.
std::map<std::string, std::span<const std::byte>> zip_entries(std::span<const std::byte> archive,
                                                              const std::string& file);

}  // namespace whisker
