// What this process has begun to write, so that a signal handler can remove it before the end.
#pragma once

#include <filesystem>

namespace whisker {

/// A file, or a folder that holds no more than such files: removed by remove_temporaries() until it
/// is forgotten. The first few at a time are remembered.
void remember_temporary(const std::filesystem::path& path);
void forget_temporary(const std::filesystem::path& path);

/// Removes them. Async-signal-safe.
void remove_temporaries();

}  // namespace whisker
