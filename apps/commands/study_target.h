// What `whisker study` shows: a configuration, a preset, a built-in network, an expression, or a
// file of `study record`.
#pragma once

#include "apps/commands/preset_config.h"
#include "apps/study/study_network.h"
#include "apps/study/study_step.h"
#include "apps/terminal/command.h"
#include "core/io/outputs.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace whisker {

class ReluDecisions;
struct MemoryReport;

struct StudyTarget {
  std::string name;                    ///< TARGET
  std::vector<std::string> arguments;  ///< section.key=value, or bindings of the expression
  std::string expression;              ///< of -e; then `name` is a binding
  StudyOptions network = {};           ///< as given; refused but for a configuration or preset
  int64_t usual_batch = 0;             ///< where none is given; 0: train.batch_size
  ReluDecisions* relus = nullptr;      ///< of a comparison
};

/// How a view is printed.
struct StudyView {
  bool json = false, wide = false;
  /// Columns: 100, or a narrower terminal's; 0 for any number.
  size_t width() const;
};

/// TARGET, OVERRIDES and -e.
void add_target(CLI::App* command, StudyTarget& target);
/// -e alone, of commands with other words.
void add_expression(CLI::App* command, StudyTarget& target);
/// --wide and --json.
void add_view_options(CLI::App* command, StudyView& view);
/// --json alone, of commands without lines to break.
void add_json_option(CLI::App* command, StudyView& view);
/// --batch-size with the help `batch`, --steps, --cells and --classes.
void add_network_options(CLI::App* command, StudyTarget& target, const char* batch);
/// Throws usage where one of them is given for a target that takes none.
void refuse_network_options(const StudyOptions& given, const std::string& target);
/// Whether the target is a file of study record.
bool is_recording(const StudyTarget& target);
/// Throws usage for overrides and for what refuse_network_options() refuses.
void refuse_recording_options(const StudyTarget& target);
/// Takes seed=N out of the bindings of a formula; 0 where there is none. Throws usage for what is
/// no number.
uint64_t take_seed(std::vector<std::string>& bindings);
/// A number above 0.
const CLI::Validator& above_zero();
/// Beside the commands of study.cpp.
void add_why_command(CLI::App& study, Invocation& invocation);
void add_memory_command(CLI::App& study, Invocation& invocation);
void add_compare_command(CLI::App& study, Invocation& invocation);
void add_gradcheck_command(CLI::App& study, Invocation& invocation);
void add_roofline_command(CLI::App& study, Invocation& invocation);
void add_exercise_commands(CLI::App& study, Invocation& invocation);

/// The configuration that a target names, as read_shown_config().
ShownConfig read_study_config(const StudyTarget& target, const Invocation& invocation);

/// The step of a target that is no file of study record. Says what it assumes. Files that it reads
/// become inputs of `outputs`. Throws usage for a target that is nothing of the kind.
StudyStep study_step(const StudyTarget& target, const Invocation& invocation,
                     Outputs* outputs = nullptr);

/// One step of the target, with values or without; a file's as it was recorded. Says and throws
/// what study_step() does.
Recording record_target(const StudyTarget& target, bool values, const Invocation& invocation,
                        Outputs* outputs = nullptr);

/// Where the memory of the target's step goes; a file's as it was recorded.
MemoryReport memory_of_target(const StudyTarget& target, const Invocation& invocation,
                              Outputs* outputs = nullptr);

struct MeasuredStep {
  Recording recording;
  std::string times;  ///< where they come from, a line
};

/// record_target() with the device's ceilings, and the shortest time of each operator in up to five
/// steps, with values two; a file's ceilings and times are its own.
MeasuredStep record_measured(const StudyTarget& target, bool values, const Invocation& invocation,
                             Outputs* outputs = nullptr);

}  // namespace whisker
