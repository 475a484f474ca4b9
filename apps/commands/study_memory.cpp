// whisker study memory: who holds how much memory when, over one training step.
#include "apps/commands/study_target.h"
#include "apps/study/memory_report.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/terminal.h"
#include "core/io/file_ending.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace whisker {
namespace {

struct MemoryArguments {
  StudyTarget target;
  std::string output;
  bool force = false;
  StudyView view;
};

constexpr OutputFormat memory_svg{.name = "an SVG of study memory", .is_own = is_memory_svg};

int run_memory(const MemoryArguments& arguments, const Invocation& invocation) {
  const std::filesystem::path path = arguments.output;
  if (!path.empty() && file_ending(path) != ".svg") {
    fail(ErrorKind::usage, "study memory: -o: expected a name ending in .svg, got '{}'",
         arguments.output);
  }
  Outputs outputs = make_outputs("study memory", arguments.force, invocation);
  std::unique_ptr<OutputFile> file;
  if (!path.empty()) file = outputs.open("-o", path, memory_svg);
  const MemoryReport report =
      memory_of_target(arguments.target, invocation, file ? &outputs : nullptr);
  if (file) {
    file->write(report.svg());
    outputs.commit(*file, "-o", memory_svg);
  }
  print_result(arguments.view.json ? report.json() + "\n" : report.text(arguments.view.width()));
  return 0;
}

}  // namespace

MemoryReport memory_of_target(const StudyTarget& target, const Invocation& invocation,
                              Outputs* outputs) {
  if (!is_recording(target)) return MemoryReport::of(study_step(target, invocation, outputs));
  refuse_recording_options(target);
  if (outputs) outputs->add_input(target.name);
  std::optional<MemoryReport> report = MemoryReport::find(SafetensorsFile::open(target.name));
  if (!report) {
    fail(ErrorKind::checkpoint,
         "{}: {}: expected what the step's memory was, got a recording of an older version without "
         "it. Record the step again; the other views show this file.",
         target.name, MemoryReport::metadata_key);
  }
  if (invocation.verbosity >= 0) {
    tell(
        "study memory: of the recording, on the machine that made it; study record makes "
        "another\n");
  }
  return std::move(*report);
}

void add_memory_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<MemoryArguments>();
  CLI::App* memory = study.add_subcommand(
      "memory", "Who holds how much memory when, over a training step, and what recomputing saves");
  add_target(memory, arguments->target);
  add_network_options(memory, arguments->target, "Examples in the batch (train.batch_size)");
  memory->add_option("-o,--output", arguments->output, "FILE.svg: an image of the step besides")
      ->check(check_output_name);
  add_force(memory, arguments->force);
  add_view_options(memory, arguments->view);
  set_action(memory, invocation,
             [&invocation, arguments] { return run_memory(*arguments, invocation); });
}

}  // namespace whisker
