// whisker study gradient-flow: how gradients went through the layers of a run.
#include "apps/commands/study_target.h"
#include "apps/study/gradient_flow.h"
#include "apps/terminal/facts.h"
#include "core/io/file_ending.h"
#include "core/io/run_files.h"
#include "core/io/text.h"

#include <filesystem>
#include <memory>
#include <system_error>

namespace whisker {
namespace {

struct FlowArguments {
  std::string run, output;
  bool force = false;
  StudyView view;
};

constexpr OutputFormat flow_svg{.name = "an SVG of study gradient-flow",
                                .is_own = is_gradient_flow_svg};
constexpr OutputFormat flow_page{.name = "a page of study gradient-flow",
                                 .is_own = is_gradient_flow_page};

int run_gradient_flow(const FlowArguments& arguments, const Invocation& invocation) {
  const std::filesystem::path path = arguments.output;
  const std::string ending = file_ending(path);
  if (!path.empty() && ending != ".svg" && ending != ".html") {
    fail(ErrorKind::usage,
         "study gradient-flow: -o: expected a name ending in .svg or .html, got '{}'",
         arguments.output);
  }
  refuse_no_run("study gradient-flow", arguments.run);
  const std::filesystem::path rows = std::filesystem::path(arguments.run) / "histograms.jsonl";
  std::error_code none;
  if (!std::filesystem::exists(rows, none)) {
    fail(ErrorKind::usage,
         "study gradient-flow: {} recorded nothing of its layers. Train with "
         "train.histogram_every=N, for every N-th step: whisker train CONFIG "
         "train.histogram_every=50; or go on so: whisker train --resume {} "
         "train.histogram_every=50.",
         excerpt(arguments.run), printable(arguments.run));
  }
  Outputs outputs = make_outputs("study gradient-flow", arguments.force, invocation);
  const OutputFormat& format = ending == ".svg" ? flow_svg : flow_page;
  outputs.add_input(rows);
  std::unique_ptr<OutputFile> file;
  if (!path.empty()) file = outputs.open("-o", path, format);
  const GradientFlow flow = GradientFlow::of(rows, arguments.run);
  if (file) {
    file->write(ending == ".svg" ? flow.svg() : flow.html());
    outputs.commit(*file, "-o", format);
  }
  print_result(arguments.view.json ? flow.json() + "\n" : flow.text(arguments.view.width()));
  return 0;
}

}  // namespace

void refuse_no_run(const char* command, const std::string& run) {
  std::error_code none;
  if (std::filesystem::is_regular_file(std::filesystem::path(run) / "config.yaml", none)) return;
  const bool file = std::filesystem::is_regular_file(run, none);
  fail(ErrorKind::usage, "{}: expected the folder of a run, got {}{}.", command, excerpt(run),
       file ? ", which is a file" : ", which has no config.yaml");
}

void add_gradient_flow_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<FlowArguments>();
  CLI::App* flow = study.add_subcommand(
      "gradient-flow",
      "Gradients, updates and dead units of each layer over a run (train.histogram_every)");
  flow->add_option("RUN", arguments->run, "The folder of the run")->required();
  flow->add_option("-o,--output", arguments->output, "FILE.svg or FILE.html: charts besides")
      ->check(check_output_name);
  add_force(flow, arguments->force);
  add_view_options(flow, arguments->view);
  set_action(flow, invocation,
             [&invocation, arguments] { return run_gradient_flow(*arguments, invocation); });
}

}  // namespace whisker
