// `whisker data label-issues`.
#pragma once

#include "apps/terminal/command.h"

namespace whisker {

void add_label_issues(CLI::App& data, Invocation& invocation);

}  // namespace whisker
