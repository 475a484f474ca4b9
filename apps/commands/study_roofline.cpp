// whisker study roofline: how near each operator of a step comes to this machine's ceilings.
#include "apps/commands/study_target.h"
#include "apps/study/roofline_report.h"
#include "apps/terminal/facts.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"

#include <filesystem>
#include <memory>

namespace whisker {
namespace {

struct RooflineArguments {
  StudyTarget target;
  std::string output;
  bool layers = false, force = false;
  StudyView view;
};

constexpr OutputFormat roofline_svg{.name = "an SVG of study roofline", .is_own = is_roofline_svg};

int run_roofline(const RooflineArguments& arguments, const Invocation& invocation) {
  const std::filesystem::path path = arguments.output;
  if (!path.empty() && file_ending(path) != ".svg") {
    fail(ErrorKind::usage, "study roofline: -o: expected a name ending in .svg, got '{}'",
         arguments.output);
  }
  Outputs outputs = make_outputs("study roofline", arguments.force, invocation);
  std::unique_ptr<OutputFile> file;
  if (!path.empty()) file = outputs.open("-o", path, roofline_svg);
  const MeasuredStep step =
      record_measured(arguments.target, false, invocation, file ? &outputs : nullptr);
  if (!step.recording.ceilings) {
    fail(ErrorKind::checkpoint,
         "study roofline: {}: the recording does not hold the ceilings of its machine. Record the "
         "step there again with study record.",
         excerpt(arguments.target.name));
  }
  RooflineReport report = RooflineReport::of(step.recording, step.times);
  if (arguments.layers) report = report.by_layer();
  if (file) {
    file->write(report.svg());
    outputs.commit(*file, "-o", roofline_svg);
  }
  print_result(arguments.view.json ? report.json() + "\n" : report.text(arguments.view.width()));
  return 0;
}

}  // namespace

void add_roofline_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<RooflineArguments>();
  CLI::App* roofline = study.add_subcommand(
      "roofline", "Operations, bytes and time of each operator beside what this machine reaches");
  add_target(roofline, arguments->target);
  add_network_options(roofline, arguments->target, "Examples in the batch (train.batch_size)");
  roofline->add_option("-o,--output", arguments->output, "FILE.svg: an image besides")
      ->check(check_output_name);
  add_force(roofline, arguments->force);
  roofline->add_flag("--layers", arguments->layers, "Sums over each layer's operators");
  add_view_options(roofline, arguments->view);
  set_action(roofline, invocation,
             [&invocation, arguments] { return run_roofline(*arguments, invocation); });
}

}  // namespace whisker
