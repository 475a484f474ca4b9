// The pictures that a command line names: files, folders (walked, sorted), and `-` for a list of
// names on standard input, one per line.
#pragma once

#include "data/file_walk.h"

#include <string>
#include <vector>

namespace whisker {

/// `words` with the lines of standard input in place of each `-`.
std::vector<std::string> expand_stdin(const std::vector<std::string>& words);

/// What words on a command line stand for.
struct InputFiles {
  std::vector<std::string> paths;
  std::vector<SkippedFile> passed_over;  ///< files in folders that are no pictures, as paths
};

/// Expands `words` in order. A name that does not exist, and a folder that cannot be read, stays in
/// the list, so that opening it reports the failure beside the others. Folders give their JPEG, PNG
/// and BMP files, sorted bytewise.
InputFiles expand_inputs(const std::vector<std::string>& words);

/// `path`, unless it is a folder: then throws checkpoint, and names the weights file in a run
/// folder.
std::string weights_file(const std::string& path);

/// `reason` without the name of the file, where it begins with that.
std::string bare_reason(const std::string& path, const std::string& reason);
/// Says on stderr that `path` was passed over.
void tell_unreadable(const std::string& path, const std::string& reason);

}  // namespace whisker
