// Files that lie beside the program: those of the checkout that it was built in, or of its
// installation.
#pragma once

#include <filesystem>
#include <initializer_list>

namespace whisker {

/// The first of these names that is there, below the folders above the program's own: P/../scripts
/// and P/../../scripts of a checkout, P/../share/whisker of an installation. Empty where none is.
std::filesystem::path beside_program(std::initializer_list<const char*> names);

/// `path` from the working folder where it lies below that, else as it is.
std::filesystem::path from_here(const std::filesystem::path& path);

}  // namespace whisker
