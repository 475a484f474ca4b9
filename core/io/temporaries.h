// What this process has begun to write, so that a signal handler can remove it before the end.
#pragma once

#include <filesystem>
#include <functional>

namespace whisker {

/// Calls `create`, which makes the file `path`, or a folder for such files, and returns whether it
/// did: then it is removed by remove_temporaries() until it is forgotten. The first few at a time
/// are remembered. Returns what `create` returned, with its errno.
bool create_temporary(const std::filesystem::path& path, const std::function<bool()>& create);
void forget_temporary(const std::filesystem::path& path);

/// Removes them, and lets no thread create another: the caller ends the process. For threads that
/// create none, those that take signals and watch other ranks.
void remove_temporaries();

}  // namespace whisker
