// whisker train --resume RUN.
#pragma once

#include "apps/commands/train_arguments.h"
#include "apps/terminal/command.h"
#include "core/communicator/rank_group.h"

#include <memory>

namespace whisker {

/// Throws usage for options and keys that a resumed run cannot have.
void check_resume(const TrainArguments& arguments);
/// Goes on with the run; returns the exit code.
int resume_run(const TrainArguments& arguments, const std::shared_ptr<RankGroup>& ranks,
               Invocation& invocation);

}  // namespace whisker
