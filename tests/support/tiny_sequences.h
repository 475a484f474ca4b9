// Small sequences to train on, and configurations that learn them in seconds; `overrides` as on the
// command line.
#pragma once

#include "tests/support/temporary_folder.h"
#include "train/config/config.h"

#include <string>
#include <vector>

namespace whisker::test {

/// Writes words of two "languages" that differ in one letter somewhere, 3 to 9 letters long, into
/// words/.
void write_two_languages(const TemporaryFolder& folder);
/// A classifier of what write_two_languages() wrote.
Config text_config(const TemporaryFolder& folder, const std::vector<std::string>& overrides = {});
/// Writes a text, and gives a language model of its characters.
Config language_config(const TemporaryFolder& folder,
                       const std::vector<std::string>& overrides = {});
/// Writes 96 months that grow and swing, and gives a forecast of the next one.
Config series_config(const TemporaryFolder& folder, const std::vector<std::string>& overrides = {});

}  // namespace whisker::test
