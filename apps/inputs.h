// The pictures that a command line names: files, folders (walked, sorted), and `-` for a list of
// names on standard input, one per line.
#pragma once

#include <string>
#include <vector>

namespace whisker {

/// Expands `words` in order. A name that does not exist stays in the list, so that reading it
/// reports the failure beside the others. Folders give their JPEG, PNG and BMP files, sorted
/// bytewise.
std::vector<std::string> expand_inputs(const std::vector<std::string>& words);

}  // namespace whisker
