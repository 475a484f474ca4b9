// The error message for a mistake on the command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace whisker {

/// CLI11's message, or a better one for an unknown subcommand or option, with the nearest name.
/// Ends with the --help command to run.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace whisker
