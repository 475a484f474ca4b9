// What a file's name says of its format.
#pragma once

#include <filesystem>
#include <string>

namespace whisker {

/// The name's ending in lower case: ".pth" of W.PTH; "" without one.
std::string file_ending(const std::filesystem::path& path);

}  // namespace whisker
