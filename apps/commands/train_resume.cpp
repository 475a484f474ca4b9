#include "apps/commands/train_resume.h"

#include "apps/commands/train_run.h"
#include "apps/ranks/launcher.h"
#include "core/error.h"
#include "train/device/device_choice.h"
#include "train/ranks/same_run.h"

#include <string>
#include <utility>

namespace whisker {

void check_resume(const TrainArguments& arguments) {
  const bool starts = !arguments.init.empty() || !arguments.weights_key.empty();
  if (arguments.dry_run || arguments.find_lr || starts) {
    fail(ErrorKind::usage,
         "--resume: not together with --dry-run or --init, nor with --find-lr or --weights-key");
  }
  for (const std::string& assignment : arguments.words) {
    const std::string key = assignment.substr(0, assignment.find('='));
    if (key == "name" || key == "runs") {
      fail(ErrorKind::usage,
           "--resume: '{}': a resumed run stays in its folder. Leave it out, or move the folder "
           "first.",
           assignment);
    }
    if (!may_change_on_resume(key)) {
      fail(ErrorKind::usage,
           "--resume: '{}' cannot change in a resumed run. It may change the keys marked with * "
           "in 'whisker config keys'. Leave it out, or {}.",
           assignment, new_run_remedy(arguments.resume));
    }
  }
}

int resume_run(const TrainArguments& arguments, const std::shared_ptr<RankGroup>& ranks,
               Invocation& invocation) {
  RunFolder folder =
      ranks->leads() ? RunFolder::open(arguments.resume) : RunFolder::of_rank_0(arguments.resume);
  require_same_checkpoint(*ranks, folder);
  Config config = read_run_config(folder.config().string(), arguments.words);
  if (const int count = ranks_to_start(arguments.gpus, config.device, arguments.max_restarts);
      count > 0) {
    folder.close();
    return start_ranks(count, restarts_of(arguments, invocation));
  }
  require_same_config(*ranks, config);
  invocation.device_start.emplace(device_of_rank(config.device, *ranks));
  return logged(folder, [&] {
    Experiment experiment(std::move(config), StartFrom::checkpoint, ranks);
    return train_in(experiment, folder, true, invocation);
  });
}

}  // namespace whisker
