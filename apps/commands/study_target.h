// What `whisker study` shows: a configuration, a preset, a built-in network, an expression, or a
// file of `study record`.
#pragma once

#include "apps/commands/preset_config.h"
#include "apps/study/study_network.h"
#include "apps/terminal/command.h"
#include "core/io/outputs.h"

#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

struct StudyTarget {
  std::string name;                    ///< TARGET
  std::vector<std::string> arguments;  ///< section.key=value, or bindings of the expression
  std::string expression;              ///< of -e; then `name` is a binding
  StudyOptions network = {};           ///< as given; refused but for a configuration or preset
  int64_t usual_batch = 0;             ///< where none is given; 0: train.batch_size
};

/// The configuration that a target names, as read_shown_config().
ShownConfig read_study_config(const StudyTarget& target, const Invocation& invocation);

/// One step of the target, with values or without; a file's as it was recorded. Says what it
/// assumes. Files that it reads become inputs of `outputs`. Throws usage for a target that is
/// nothing of the kind.
Recording record_target(const StudyTarget& target, bool values, const Invocation& invocation,
                        Outputs* outputs = nullptr);

}  // namespace whisker
