// Creating files in bulk: checked writes without the fsync of each that AtomicFile makes, for data
// that a second run of the same command makes again.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace whisker {

/// Writes a file that must not exist yet. Throws usage or disk as fail_disk(); a file that could
/// not be written whole is removed.
void write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

/// Makes `folder` and its parents; throws usage or disk as fail_disk().
void make_folders(const std::filesystem::path& folder);

/// make_folders(), and throws usage naming `what` unless the folder is empty.
void make_empty_folder(const std::filesystem::path& folder, const char* what);

}  // namespace whisker
