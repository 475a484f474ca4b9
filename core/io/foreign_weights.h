// Files that users give as weights and that are none: other formats of networks, packed files, what
// a failed download leaves. They are called by their names, with what to do.
#pragma once

#include <string>
#include <string_view>

namespace whisker {

class ZipArchive;

/// Throws checkpoint, naming `file`, for content that is known by its first bytes as another format
/// than safetensors; a zip archive is none of them.
void refuse_foreign_weights(std::string_view content, const std::string& file);
/// Refuses an archive that torch.save did not write, by the names of its entries.
void refuse_foreign_archive(const ZipArchive& archive, const std::string& file);

}  // namespace whisker
