// What a mistake on the command line is answered with.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace whisker {

/// CLI11's message, or a better one for a word that is no subcommand and for an unknown option:
/// what is there and the nearest name. Ends with whose --help to ask.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace whisker
