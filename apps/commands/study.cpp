// whisker study trace|graph|step|record: shows automatic differentiation on a network.
#include "apps/commands/preset_config.h"
#include "apps/commands/study_target.h"
#include "apps/study/builtin_networks.h"
#include "apps/study/graph_page.h"
#include "apps/study/memory_report.h"
#include "apps/study/step_session.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/terminal.h"
#include "core/io/file_ending.h"
#include "core/io/json.h"
#include "core/io/safetensors_stream.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/trace/recording_file.h"
#include "core/trace/tape_graph.h"
#include "core/trace/tape_listing.h"
#include "train/experiment.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

namespace whisker {
namespace {

struct StudyArguments {
  StudyTarget target;
  std::string output;
  bool force = false;
  StudyView view;
  std::string script;
  bool has_script = false;
};

struct GraphFormat {
  std::string_view ending;
  OutputFormat format;
  std::string (*text)(const Recording&, bool say);
};
std::string said_page(const Recording& recording, bool say) {
  GraphPage page = graph_page(recording);
  if (say && !page.left_out.empty()) tell(fmt::format("study graph: {}\n", page.left_out));
  return std::move(page.text);
}

template <auto draw>
std::string drawn(const Recording& recording, bool) {
  return draw(recording);
}

// The first goes to stdout.
constexpr GraphFormat graph_formats[] = {
    {".dot", {.name = "a DOT file of study graph", .is_own = is_tape_dot}, drawn<tape_dot>},
    {".svg", {.name = "an SVG of study graph", .is_own = is_tape_svg}, drawn<tape_svg>},
    {".html", {.name = "a page of study graph", .is_own = is_graph_page}, said_page},
    {".mmd",
     {.name = "a Mermaid file of study graph", .is_own = is_tape_mermaid},
     drawn<tape_mermaid>}};

// What no table of outputs recognises: an older recording is replaced by --force alone.
constexpr OutputFormat recording_format{.name = "a recording of study record"};

int run_trace(const StudyArguments& arguments, const Invocation& invocation) {
  const Recording recording = record_target(arguments.target, false, invocation);
  print_result(arguments.view.json
                   ? fmt::format("{}\n", recording_json(recording))
                   : fmt::format("{}\n{}", wrapped_lines(recording.title, arguments.view.width()),
                                 tape_listing(recording, arguments.view.width())));
  return 0;
}

int run_graph(StudyArguments arguments, const Invocation& invocation) {
  const std::filesystem::path path = arguments.output;
  const std::string ending = file_ending(path);
  const GraphFormat* const chosen =
      path.empty() ? graph_formats : std::ranges::find(graph_formats, ending, &GraphFormat::ending);
  if (chosen == std::end(graph_formats)) {
    fail(ErrorKind::usage,
         "study graph: -o: expected a name ending in .html, .svg, .dot or .mmd, got '{}'",
         arguments.output);
  }
  Outputs outputs = make_outputs("study graph", arguments.force, invocation);
  std::unique_ptr<OutputFile> file;
  if (!path.empty()) file = outputs.open("-o", path, chosen->format);
  arguments.target.usual_batch = 2;
  const Recording recording =
      record_target(arguments.target, true, invocation, path.empty() ? nullptr : &outputs);
  const bool only_json = arguments.view.json && !file;
  const std::string text =
      only_json ? std::string() : chosen->text(recording, invocation.verbosity >= 0);
  if (file) {
    file->write(text);
    outputs.commit(*file, "-o", chosen->format);
  }
  if (arguments.view.json) {
    print_result(graph_json(recording) + "\n");
  } else if (!file) {
    print_result(text);
  }
  return 0;
}

// None where a recording of an older version is written again.
std::optional<MemoryReport> memory_to_record(const StudyTarget& target,
                                             const Invocation& invocation) {
  if (!is_recording(target)) {
    Invocation quiet;  // what is assumed is said with the recording
    quiet.verbosity = -1;
    return memory_of_target(target, quiet);
  }
  std::optional<MemoryReport> report = MemoryReport::find(SafetensorsFile::open(target.name));
  if (!report && invocation.verbosity >= 0) {
    tell(
        fmt::format("study record: {} does not say what the step's memory was, nor will the copy; "
                    "a recording of the step itself does\n",
                    printable(target.name)));
  }
  return report;
}

int run_record(const StudyArguments& arguments, const Invocation& invocation) {
  const std::filesystem::path path = arguments.output;
  if (file_ending(path) != ".safetensors") {
    fail(ErrorKind::usage, "study record: -o: expected a name ending in .safetensors, got '{}'",
         arguments.output);
  }
  Outputs outputs = make_outputs("study record", arguments.force, invocation);
  const std::unique_ptr<OutputFile> output = outputs.open("-o", path, recording_format);
  // First, as the process' first step is that which times algorithms.
  const std::optional<MemoryReport> memory = memory_to_record(arguments.target, invocation);
  const Recording recording =
      record_measured(arguments.target, true, invocation, &outputs).recording;
  const std::string json = arguments.view.json ? recording_json(recording) + "\n" : "";
  RecordingFile file = RecordingFile::of(recording);
  if (memory) file.metadata[MemoryReport::metadata_key] = memory->json();
  write_safetensors([&](std::span<const std::byte> bytes) { output->write(bytes); }, path.string(),
                    file.metadata, std::move(file.entries));
  outputs.commit(*output, "-o", recording_format);
  print_result(json);
  return 0;
}

std::string frames_json(const Recording& recording, const StepFrames& frames,
                        const std::vector<size_t>& shown) {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).field("network", recording.title);
  json.list("frames", shown, [&](size_t frame) { frames.write_json(json, frame); });
  return json.end_object().str() + "\n";
}

// Keys by lines: an empty one is n.
void step_by_keys(StepSession& session) {
  print_result(session.text());
  std::string line;
  while (true) {
    print_result(fmt::format("({}) ", StepSession::keys));
    if (!std::getline(std::cin, line)) break;
    if (line == "q") return;
    try {
      const std::string said = session.follow(line.empty() ? "n" : line);
      print_result(said.empty() ? session.text() : said);
    } catch (const Error& error) {
      print_result(fmt::format("{}\n", error.what()));
    }
  }
  print_result("\n");
}

int run_step(StudyArguments arguments, const Invocation& invocation) {
  const std::vector<std::string> words = script_words(arguments.script);
  arguments.target.usual_batch = 2;
  const Recording recording = record_target(arguments.target, true, invocation);
  const StepFrames frames(recording);
  if (frames.count() == 0) {
    fail(ErrorKind::checkpoint, "study step: {}: the recording has no operators.",
         arguments.target.name);
  }
  const FrameOptions options{.width = arguments.view.width()};
  std::vector<size_t> shown;
  if (!arguments.view.json) {
    print_result(wrapped_lines(recording.title, options.width) + "\n");
  }
  if (!arguments.has_script) {
    StepSession session(frames, options);
    if (!arguments.view.json && is_terminal(stdin) && is_terminal(stdout)) {
      step_by_keys(session);
      return 0;
    }
    for (size_t i = 0; i < frames.count(); ++i) {
      shown.push_back(i);
      if (!arguments.view.json) print_result(frames.text(i, options) + "\n");
    }
  } else {
    StepSession session(frames, options);
    shown.push_back(session.frame());
    if (!arguments.view.json) print_result(session.text() + "\n");
    for (const std::string& word : words) {
      if (word == "q") break;
      const std::string said = session.follow(word);
      shown.push_back(session.frame());
      if (!arguments.view.json) print_result((said.empty() ? session.text() : said) + "\n");
    }
  }
  if (arguments.view.json) print_result(frames_json(recording, frames, shown));
  return 0;
}

}  // namespace

void add_study_command(CLI::App& app, Invocation& invocation) {
  CLI::App* study = app.add_subcommand("study", "Show the tape of a network and check gradients");
  study->require_subcommand(1);
  const auto arguments = std::make_shared<StudyArguments>();

  CLI::App* trace = study->add_subcommand(
      "trace", "List every operator of a training step, forward and backward");
  add_target(trace, arguments->target);
  add_network_options(trace, arguments->target, "Examples in the batch (train.batch_size)");
  add_view_options(trace, arguments->view);
  set_action(trace, invocation,
             [&invocation, arguments] { return run_trace(*arguments, invocation); });

  CLI::App* graph = study->add_subcommand("graph", "Draw the tape with shapes and gradient norms");
  add_target(graph, arguments->target);
  add_network_options(graph, arguments->target, "Examples in the batch (2)");
  graph
      ->add_option("-o,--output", arguments->output,
                   "FILE.html, FILE.svg, FILE.dot or FILE.mmd (DOT on stdout)")
      ->check(check_output_name);
  add_force(graph, arguments->force);
  add_json_option(graph, arguments->view);
  set_action(graph, invocation,
             [&invocation, arguments] { return run_graph(*arguments, invocation); });

  CLI::App* step = study->add_subcommand(
      "step", "Show a training step operator by operator, forwards and backwards");
  add_target(step, arguments->target);
  add_network_options(step, arguments->target, "Examples in the batch (2)");
  const CLI::Option* const script =
      step->add_option("--script", arguments->script,
                       fmt::format("Keys instead of every frame: {}", StepSession::keys));
  add_view_options(step, arguments->view);
  set_action(step, invocation, [&invocation, arguments, script] {
    arguments->has_script = script->count() > 0;
    return run_step(*arguments, invocation);
  });

  CLI::App* record = study->add_subcommand(
      "record", "Write a training step with its values to a file that the other views take");
  add_target(record, arguments->target);
  add_network_options(record, arguments->target, "Examples in the batch (train.batch_size)");
  record->add_option("-o,--output", arguments->output, "FILE.safetensors")
      ->required()
      ->check(check_output_name);
  add_force(record, arguments->force);
  add_json_option(record, arguments->view);
  set_action(record, invocation,
             [&invocation, arguments] { return run_record(*arguments, invocation); });

  add_why_command(*study, invocation);
  add_memory_command(*study, invocation);
  add_compare_command(*study, invocation);
  add_roofline_command(*study, invocation);
  add_gradient_flow_command(*study, invocation);
  add_nan_command(*study, invocation);

  add_gradcheck_command(*study, invocation);
  add_exercise_commands(*study, invocation);
}

}  // namespace whisker
