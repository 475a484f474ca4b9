// Shell completion made from the commands themselves.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace whisker {

/// A bash script that completes `app`: subcommands, options, the choices of options that have
/// some, and file names.
std::string bash_completion(const CLI::App& app);

}  // namespace whisker
