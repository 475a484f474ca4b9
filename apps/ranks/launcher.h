// Starts one process per GPU of this machine: what `--gpus` and a list of devices ask for. Starts
// them again after a failure: --max-restarts.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace whisker {

/// Number of ranks that this process has to start, for the values of --gpus ("", "all" or a number)
/// and of device, one at least for --max-restarts above 0; 0: none, because one is enough or a
/// launcher started this process as a rank. Throws usage for a value that cannot be, device for
/// more GPUs than there are.
int ranks_to_start(const std::string& gpus, const std::string& device, int max_restarts = 0);

struct RankProgram {
  std::string path;
  std::vector<std::string> arguments;  ///< its name first
};
/// This program with its own arguments.
RankProgram own_program();

struct Restarts {
  int most = 0;
  /// Arguments with which the run in a folder that has a checkpoint goes on.
  std::function<std::vector<std::string>(const std::string& run)> resume = {};
};

/// Starts `program` `count` times as ranks of one run; stop signals are passed on to all. Returns
/// once all have ended: the exit code of the first that failed, after which the others are ended,
/// too. Ranks that were killed, hang, or failed for a reason that may pass are started again, from
/// the last checkpoint of the run that rank 0 reported, or from the beginning.
int start_ranks(int count, const Restarts& restarts = {}, RankProgram program = own_program());

/// Rank 0 tells the launcher, if one started it, where its run is.
void report_run(const std::filesystem::path& folder);

}  // namespace whisker
