// Options of `whisker train` that are another way to write a configuration key: --epochs 3 is
// train.epochs=3. One table holds them all.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace whisker {

/// Adds them to `command`, which has the other options of the table.
void add_key_options(CLI::App* command);

/// The assignments that the given options stand for. Throws usage for an option beside an
/// assignment of its key in `words`, or of the section that the key lies in.
std::vector<std::string> key_option_assignments(const CLI::App& command,
                                                std::span<const std::string> words);

}  // namespace whisker
