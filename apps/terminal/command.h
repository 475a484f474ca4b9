// How a subcommand becomes part of the program: it adds itself to the CLI11 app and stores in
// Invocation what main() runs. One file per subcommand; conventions (streams, exit codes) are in
// docs/reference/command_line.md.
#pragma once

#include "core/tensor/device.h"
#include "train/device/device_start.h"

#include <functional>
#include <optional>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

namespace whisker {

/// Options every subcommand shares, and the chosen one's action.
struct Invocation {
  int verbosity = 0;           ///< -1 quiet, 0 normal, 1 and more verbose
  std::string color = "auto";  ///< auto, always, never
  std::function<int()> run;    ///< returns the exit code
  const CLI::App* command = nullptr;  ///< the chosen one
  /// Starts the GPU that `run` will use. Stored here so that errors are reported without waiting
  /// for it.
  std::optional<DeviceStart> device_start = {};
};

void add_train_command(CLI::App& app, Invocation& invocation);
void add_evaluate_command(CLI::App& app, Invocation& invocation);
void add_classify_command(CLI::App& app, Invocation& invocation);
void add_bench_command(CLI::App& app, Invocation& invocation);
void add_export_command(CLI::App& app, Invocation& invocation);
void add_generate_command(CLI::App& app, Invocation& invocation);
void add_import_command(CLI::App& app, Invocation& invocation);
void add_summary_command(CLI::App& app, Invocation& invocation);
void add_data_command(CLI::App& app, Invocation& invocation);
void add_study_command(CLI::App& app, Invocation& invocation);
void add_config_command(CLI::App& app, Invocation& invocation);
void add_devices_command(CLI::App& app, Invocation& invocation);
void add_models_command(CLI::App& app, Invocation& invocation);
void add_report_command(CLI::App& app, Invocation& invocation);
void add_version_command(CLI::App& app, Invocation& invocation);
void add_completion_command(CLI::App& app, Invocation& invocation);

/// A number from `low` to `high`; NaN, which CLI::Range accepts, is none.
CLI::Validator number_range(double low, double high);

/// As of the key `seed`. CLI11 before 2.4 takes -1 for 2^64 - 1.
inline CLI::Validator seed_range() {
  return number_range(0, 0x1p53);
}

/// Calling `command` runs `action`, which returns the exit code.
void set_action(CLI::App* command, Invocation& invocation, std::function<int()> action);

/// The program's words for CLI11, the last first. No option has a dot, and CLI11 2.4 would take
/// --train.epochs for --epochs of the subcommand train: another dot before it prevents that.
std::vector<std::string> words_to_parse(const CLI::App& app, std::span<char* const> words);

/// CLI11's message, or a better one for an unknown subcommand or option, with the nearest name, or
/// the configuration key that an option of other programs is here. Ends with the --help command to
/// run. `words` are the program's.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error,
                        std::span<char* const> words);

/// choose_device(), with its note on stderr unless --quiet; for commands without a run's log.
Device chosen_device(const std::string& text, const Invocation& invocation);

/// Thrown when the reader of stdout closed it: the program ends silently.
struct BrokenPipe {};

/// Writes a result to stdout with control characters escaped, except line breaks and tabs
/// (core/io/text.h): make foreign text printable() first. Throws disk when stdout is full or
/// closed, BrokenPipe when its reader closed it.
void print_result(const std::string& result);

}  // namespace whisker
