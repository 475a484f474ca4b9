// Which exercises were answered: one name a line, in $XDG_STATE_HOME/whisker/exercises_done, else
// ~/.local/state/whisker/exercises_done.
#pragma once

#include <string>
#include <vector>

namespace whisker {

std::vector<std::string> finished_exercises();
/// Adds a name. Returns what there is to say: where it is written, or why it is not.
std::string remember_finished(const std::string& name);
/// Where they are written.
std::string progress_file_note();

}  // namespace whisker
