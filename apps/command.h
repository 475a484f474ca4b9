// How a subcommand joins the program: it adds itself to the CLI11 app and leaves in Invocation what
// main() is to run. One file per subcommand; conventions (streams, exit codes) are in
// docs/command_line.md.
#pragma once

#include "train/device_start.h"

#include <functional>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace whisker {

/// Options every subcommand shares, and the chosen one's action.
struct Invocation {
  int verbosity = 0;           ///< -1 quiet, 0 normal, 1 and more verbose
  std::string color = "auto";  ///< auto, always, never
  std::function<int()> run;    ///< returns the exit code
  /// The GPU that `run` wants by and by. Here, because what is wrong meanwhile is reported before
  /// this is waited for.
  std::optional<DeviceStart> device_start = {};
};

void add_train_command(CLI::App& app, Invocation& invocation);
void add_evaluate_command(CLI::App& app, Invocation& invocation);
void add_classify_command(CLI::App& app, Invocation& invocation);
void add_bench_command(CLI::App& app, Invocation& invocation);
void add_generate_command(CLI::App& app, Invocation& invocation);
void add_summary_command(CLI::App& app, Invocation& invocation);
void add_data_command(CLI::App& app, Invocation& invocation);
void add_study_command(CLI::App& app, Invocation& invocation);
void add_config_command(CLI::App& app, Invocation& invocation);
void add_devices_command(CLI::App& app, Invocation& invocation);
void add_version_command(CLI::App& app, Invocation& invocation);
void add_completion_command(CLI::App& app, Invocation& invocation);

/// Writes a result to stdout. Throws disk when stdout is full or closed.
void print_result(const std::string& text);

}  // namespace whisker
