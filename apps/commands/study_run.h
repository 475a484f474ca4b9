// The views of `whisker study` that read the folder of a run.
#pragma once

#include "apps/terminal/command.h"

#include <string>

namespace whisker {

/// Throws usage, beginning with `command`, unless `run` is the folder of a run.
void refuse_no_run(const char* command, const std::string& run);
/// Beside the commands of study.cpp.
void add_gradient_flow_command(CLI::App& study, Invocation& invocation);
void add_nan_command(CLI::App& study, Invocation& invocation);

}  // namespace whisker
