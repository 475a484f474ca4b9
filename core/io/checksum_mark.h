// A mark that says which command wrote a file, with the CRC-32 of everything behind it: a file that
// was edited since has another. The mark stands in the file's first 256 bytes.
#pragma once

#include <string>
#include <string_view>

namespace whisker {

/// `mark`, with room for the checksum: what stands in the file.
std::string checksum_mark(std::string_view mark);
/// Fills in the checksum once `content` is complete.
void set_checksum(std::string& content, std::string_view mark);
/// Whether `content` has the mark, and the checksum of what is behind it.
bool checksum_matches(std::string_view content, std::string_view mark);

}  // namespace whisker
