// Where a user's caches and data lie: the XDG base directory specification. Paths that a shell
// would have expanded.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace whisker {

/// The folder that `variable` names (XDG_CACHE_HOME, XDG_DATA_HOME), else `otherwise` in HOME;
/// empty without either. Values that are not absolute count as none, as the specification asks.
std::filesystem::path user_folder(const char* variable, const char* otherwise);

/// Why a path that begins with ~ or $NAME, which a shell alone expands, is refused; "" for others.
std::string unexpanded(std::string_view path);

}  // namespace whisker
