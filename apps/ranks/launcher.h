// Starts one process per GPU of this machine: what `--gpus` and a list of devices ask for.
#pragma once

#include <string>

namespace whisker {

/// Number of ranks that this process has to start, for the values of --gpus ("", "all" or a number)
/// and of device; 0: none, because one is enough or a launcher started this process as a rank.
/// Throws usage for a value that cannot be, device for more GPUs than there are.
int ranks_to_start(const std::string& gpus, const std::string& device);

/// Starts this program `count` times with its own arguments, as ranks of one run; stop signals are
/// passed on to all. Returns once all have ended: the exit code of the first that failed, after
/// which the others are ended, too.
int start_ranks(int count);

}  // namespace whisker
