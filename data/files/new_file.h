// Creates files in bulk: checked writes without AtomicFile's fsync of each, for data that the same
// command can generate again.
#pragma once

#include "core/io/file.h"

#include <cstddef>
#include <filesystem>
#include <span>

namespace whisker {

/// Writes a file that must not exist yet. Throws usage or disk as fail_disk(); a file that could
/// not be written whole is removed.
void write_new_file(const std::filesystem::path& path, std::span<const std::byte> bytes,
                    const FileCalls& calls = system_file_calls());

/// Makes `folder` and its parents; throws usage or disk as fail_disk().
void make_folders(const std::filesystem::path& folder);

/// make_folders(), and throws usage naming `what` unless the folder is empty.
void make_empty_folder(const std::filesystem::path& folder, const char* what);

}  // namespace whisker
