// whisker study gradcheck: gradients beside finite differences.
#include "apps/commands/study_target.h"
#include "apps/study/builtin_networks.h"
#include "apps/study/gradcheck_report.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/terminal.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "layers/builder/presets.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace whisker {
namespace {

struct GradcheckArguments {
  StudyTarget target;
  GradcheckRequest request;
  std::string output;
  bool force = false;
  StudyView view;
};

constexpr OutputFormat gradcheck_svg{.name = "an SVG of study gradcheck",
                                     .is_own = is_gradcheck_svg};

int run_study_gradcheck(const GradcheckArguments& arguments, const Invocation& invocation) {
  const StudyTarget& target = arguments.target;
  const size_t width = arguments.view.width();
  if (target.name.empty() && target.expression.empty()) {
    print_result(gradcheck_choices(table_width()));
    return 0;
  }
  const std::vector<std::string> operators = gradcheck_operators();
  if (!target.expression.empty()) {
    refuse_network_options(target.network, "-e FORMULA");
  } else if (std::ranges::count(operators, target.name) > 0 || find_builtin_network(target.name)) {
    refuse_network_options(target.network, target.name);
  }
  const std::filesystem::path path = arguments.output;
  if (!path.empty() && file_ending(path) != ".svg") {
    fail(ErrorKind::usage, "study gradcheck: -o: expected a name ending in .svg, got '{}'",
         arguments.output);
  }
  if (!path.empty() && target.name == "all") {
    fail(ErrorKind::usage, "study gradcheck: -o: an image shows one operator, network or formula.");
  }
  Outputs outputs = make_outputs("study gradcheck", arguments.force, invocation);
  std::unique_ptr<OutputFile> file;
  if (!path.empty()) {
    outputs.add_input(target.name);
    file = outputs.open("-o", path, gradcheck_svg);
  }
  GradcheckRequest request = arguments.request;
  request.what = target.name;
  request.overrides = target.arguments;
  request.expression = target.expression;
  request.network = target.network;
  request.sweep = file != nullptr;
  if (!target.expression.empty()) {
    std::vector<std::string>& bindings = request.overrides;
    if (!target.name.empty()) bindings.insert(bindings.begin(), target.name);
    request.what.clear();
    request.seed = take_seed(bindings);
    for (const std::string& one : bindings) {
      if (!one.starts_with("device=") && !one.starts_with("precision=")) continue;
      fail(ErrorKind::usage,
           "study gradcheck -e: {}: gradients are compared in f64 on the reference device.",
           excerpt(one));
    }
    if (invocation.verbosity >= 0) {
      tell(
          fmt::format("study gradcheck -e: random numbers are those of seed={}; seed=N decides "
                      "otherwise\n",
                      request.seed));
    }
  }
  std::error_code unknown;
  const bool is_file = std::filesystem::exists(target.name, unknown);
  const bool named = std::ranges::count(operators, target.name) > 0;
  if (target.expression.empty() && !named && !is_file && find_preset(target.name)) {
    ShownConfig shown = read_study_config(target, invocation);
    request.config = std::move(shown.config);
    if (request.network.classes == 0) request.network.classes = shown.classes;
  }
  const GradcheckReport report = run_gradcheck(request);
  if (invocation.verbosity >= 0) {
    for (const std::string& note : report.notes) tell(note + "\n");
  }
  if (file) {
    file->write(report.svg());
    outputs.commit(*file, "-o", gradcheck_svg);
  }
  print_result(arguments.view.json ? report.json() + "\n" : report.text(width));
  return report.passed() ? 0 : 1;
}

}  // namespace

void add_gradcheck_command(CLI::App& study, Invocation& invocation) {
  const auto arguments = std::make_shared<GradcheckArguments>();
  CLI::App* gradcheck = study.add_subcommand(
      "gradcheck", "Compare gradients with f64 finite differences; exit code 1 when one is wrong");
  gradcheck->add_option("WHAT", arguments->target.name,
                        "An operator, a YAML file, a preset, a built-in network, or all operators: "
                        "all. Without it operators are listed");
  gradcheck->add_option("OVERRIDES", arguments->target.arguments,
                        "section.key=value, for a YAML file or a preset; with -e NAME=VALUE");
  add_expression(gradcheck, arguments->target);
  add_network_options(gradcheck, arguments->target, "Examples in the batch (2)");
  GradcheckRequest& request = arguments->request;
  gradcheck
      ->add_option("--elements", request.elements,
                   "Elements of each tensor to check (all of an operator's, 3 of a network's)")
      ->check(above_zero());
  gradcheck->add_option("--tolerance", request.tolerance, "Largest relative error")
      ->capture_default_str()
      ->check(above_zero());
  gradcheck->add_flag("--second-order", request.second_order, "Gradients of gradients");
  gradcheck
      ->add_option("-o,--output", arguments->output,
                   "FILE.svg: the error over the step, from 1e-1 to 1e-12")
      ->check(check_output_name);
  add_force(gradcheck, arguments->force);
  add_view_options(gradcheck, arguments->view);
  set_action(gradcheck, invocation,
             [&invocation, arguments] { return run_study_gradcheck(*arguments, invocation); });
}

}  // namespace whisker
