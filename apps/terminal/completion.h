// Shell completion made from the commands themselves.
#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace whisker {

/// A script of `shell` (bash, zsh, fish) that completes `app`: subcommands, options and their
/// choices, configuration keys and their values, and file names.
std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace whisker
