// Where a user's caches and data lie: the XDG base directory specification.
#pragma once

#include <filesystem>

namespace whisker {

/// The folder that `variable` names (XDG_CACHE_HOME, XDG_DATA_HOME), else `otherwise` in HOME;
/// empty without either. Values that are not absolute count as none, as the specification asks.
std::filesystem::path user_folder(const char* variable, const char* otherwise);

}  // namespace whisker
