// whisker study trace|graph|gradcheck: shows automatic differentiation on a network.
#include "apps/commands/preset_config.h"
#include "apps/study/gradcheck_report.h"
#include "apps/study/study_network.h"
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/terminal.h"
#include "core/io/file_ending.h"
#include "core/io/json.h"
#include "core/io/outputs.h"
#include "core/trace/tape_graph.h"
#include "train/experiment.h"
#include "train/resolve_config.h"

#include <filesystem>
#include <memory>
#include <utility>

namespace whisker {
namespace {

struct StudyArguments {
  std::string target;  // CONFIG, or what gradcheck is to check
  std::vector<std::string> overrides;
  std::string output;
  bool force = false;
  StudyOptions network;
  GradcheckRequest gradcheck;
  bool json = false;
};

// CLI11's own prints the whole range of a double when a number is not above zero.
const CLI::Validator above_zero(
    [](std::string& text) {
      double number = 0;
      return CLI::detail::lexical_cast(text, number) && number > 0
                 ? std::string()
                 : fmt::format("expected a number above 0, got '{}'", text);
    },
    "POSITIVE");

ShownConfig read_study_config(const StudyArguments& arguments, const Invocation& invocation) {
  return read_shown_config(arguments.target, arguments.overrides,
                           {.given = arguments.network.classes, .options = "--classes N"},
                           invocation);
}

StudyNetwork make_network(ShownConfig shown, const StudyArguments& arguments,
                          const Invocation& invocation) {
  Config config = resolve_config(std::move(shown.config));
  StudyOptions options = arguments.network;
  if (options.classes == 0) options.classes = shown.classes;
  const Device device = chosen_device(config.device, invocation);
  options.tensor = {.dtype = compute_dtype(config.precision, device), .device = device};
  configure_backend(config, options.tensor.device);
  return StudyNetwork(std::move(config), options);
}

constexpr OutputFormat svg_format{.name = "an SVG of study graph", .is_own = is_tape_svg};
constexpr OutputFormat dot_format{.name = "a DOT file of study graph", .is_own = is_tape_dot};

constexpr std::string_view kind_names[] = {"op", "leaf", "constant"};

std::string trace_json(const StudyNetwork& network, const TapeListing& listing) {
  JsonWriter json;
  json.begin_object().field("schema_version", 1).field("network", network.describe());
  json.list("entries", listing.entries(), [&](const TapeEntry& entry) {
    json.begin_object().field("kind", kind_names[static_cast<size_t>(entry.kind)]);
    json.field("name", entry.name).field("layer", entry.layer).list("inputs", entry.inputs);
    json.list("shape", entry.shape).field("dtype", fmt::format("{}", entry.dtype));
    json.field("recorded", entry.recorded).list("saved", entry.saved, [&](const TapeSaved& saved) {
      json.begin_object().field("what", saved.what).list("shape", saved.shape);
      json.field("dtype", fmt::format("{}", saved.dtype)).field("bytes", saved.bytes).end_object();
    });
    json.field("number", entry.number).field("forward_ms", entry.forward_ms);
    json.field("backward_step", entry.backward_step).field("backward_ms", entry.backward_ms);
    json.end_object();
  });
  return json.end_object().str() + "\n";
}

int run_trace(const StudyArguments& arguments, const Invocation& invocation) {
  const StudyNetwork network =
      make_network(read_study_config(arguments, invocation), arguments, invocation);
  {
    TapeListing warm_up;  // the first pass pays for memory and threads
    network.run(warm_up);
  }
  TapeListing listing;
  network.run(listing);
  print_result(arguments.json ? trace_json(network, listing)
                              : network.describe() + "\n\n" + listing.str(table_width()));
  return 0;
}

int run_graph(StudyArguments arguments, const Invocation& invocation) {
  const std::filesystem::path path = arguments.output;
  const std::string ending = file_ending(path);
  const bool svg = ending == ".svg";
  if (!path.empty() && !svg && ending != ".dot") {
    fail(ErrorKind::usage, "study graph: -o: expected a name ending in .svg or .dot, got '{}'",
         arguments.output);
  }
  const OutputFormat format = svg ? svg_format : dot_format;
  Outputs outputs = make_outputs("study graph", arguments.force, invocation);
  std::unique_ptr<OutputFile> file;
  ShownConfig shown = read_study_config(arguments, invocation);
  const Config& config = shown.config;
  if (!path.empty()) {
    outputs.add_input(arguments.target);
    outputs.add_input(config.init.from);
    outputs.add_input(config.data.csv);
    for (const std::string& data : {config.data.train, config.data.val}) outputs.add_data(data);
    file = outputs.open("-o", path, format);
  }
  if (arguments.network.batch == 0) arguments.network.batch = 2;
  const StudyNetwork network = make_network(std::move(shown), arguments, invocation);
  TapeListing listing({.gradient_norms = true});
  network.run(listing);
  const std::string text =
      svg ? tape_svg(listing, network.describe()) : tape_dot(listing, network.describe());
  if (file) {
    file->write(text);
    outputs.commit(*file, "-o", format);
  } else {
    print_result(text);
  }
  return 0;
}

CLI::App* add_config_arguments(CLI::App* command, StudyArguments& arguments) {
  command->add_option("CONFIG", arguments.target, "YAML file, or a preset's name")->required();
  command->add_option("OVERRIDES", arguments.overrides, "section.key=value");
  return command;
}

void add_network_options(CLI::App* command, StudyArguments& arguments, const char* batch) {
  command->add_option("--batch-size,--batch", arguments.network.batch, batch)->check(above_zero);
  command->add_option("--steps", arguments.network.steps, "Steps of sequences (as in data.train)")
      ->check(above_zero);
  command->add_flag("--cells", arguments.network.cells,
                    "Recurrent layers step by step, in plain operators");
  command
      ->add_option("--classes", arguments.network.classes,
                   "Number of classes (those of data.train, or 2)")
      ->check(above_zero);
}

}  // namespace

void add_study_command(CLI::App& app, Invocation& invocation) {
  CLI::App* study = app.add_subcommand("study", "Show the tape of a network and check gradients");
  study->require_subcommand(1);
  const auto arguments = std::make_shared<StudyArguments>();

  CLI::App* trace = study->add_subcommand(
      "trace", "List every operator of a training step, forward and backward");
  add_config_arguments(trace, *arguments);
  add_network_options(trace, *arguments, "Examples in the batch (train.batch_size)");
  trace->add_flag("--json", arguments->json, "One JSON object");
  set_action(trace, invocation,
             [&invocation, arguments] { return run_trace(*arguments, invocation); });

  CLI::App* graph = study->add_subcommand("graph", "Draw the tape with shapes and gradient norms");
  add_config_arguments(graph, *arguments);
  add_network_options(graph, *arguments, "Examples in the batch (2)");
  graph->add_option("-o,--output", arguments->output, "FILE.svg or FILE.dot (DOT on stdout)")
      ->check(check_output_name);
  add_force(graph, arguments->force);
  set_action(graph, invocation,
             [&invocation, arguments] { return run_graph(*arguments, invocation); });

  CLI::App* gradcheck = study->add_subcommand(
      "gradcheck", "Compare gradients with f64 finite differences; exit code 1 when one is wrong");
  gradcheck->add_option("WHAT", arguments->target,
                        "An operator, a YAML file, or all operators: all. Without it they are "
                        "listed");
  gradcheck->add_option("OVERRIDES", arguments->overrides, "section.key=value, for a YAML file");
  add_network_options(gradcheck, *arguments, "Examples in the batch (2)");
  gradcheck
      ->add_option("--elements", arguments->gradcheck.elements,
                   "Elements of each tensor to check (all of an operator's, 3 of a network's)")
      ->check(above_zero);
  gradcheck->add_option("--tolerance", arguments->gradcheck.tolerance, "Largest relative error")
      ->capture_default_str()
      ->check(above_zero);
  set_action(gradcheck, invocation, [arguments] {
    if (arguments->target.empty()) {
      print_result(gradcheck_choices(table_width()));
      return 0;
    }
    GradcheckRequest request = arguments->gradcheck;
    request.what = arguments->target;
    request.overrides = arguments->overrides;
    request.network = arguments->network;
    const GradcheckReport report = run_gradcheck(request);
    print_result(report.text);
    return report.passed ? 0 : 1;
  });
}

}  // namespace whisker
