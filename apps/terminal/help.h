// What --help prints: at most 80 columns, words whole, and two examples of each subcommand.
#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

namespace whisker {

/// The formatter of the program, set before its subcommands are added, which inherit it.
std::shared_ptr<CLI::FormatterBase> help_formatter();

/// Adds the examples to every subcommand.
void add_examples(CLI::App& app);

/// "FILE", "DIR", "N", ... for what follows an option; "" for a flag.
std::string value_name(const CLI::Option& option);

}  // namespace whisker
