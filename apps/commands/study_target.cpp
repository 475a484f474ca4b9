// Which kind a target is follows from its name: an existing file comes before the names of built-in
// networks and presets.
#include "apps/commands/study_target.h"

#include "apps/study/builtin_networks.h"
#include "apps/terminal/terminal.h"
#include "core/backend/backend.h"
#include "core/io/counted.h"
#include "core/io/file_ending.h"
#include "core/io/text.h"
#include "core/ops/checks.h"
#include "core/trace/recording_file.h"
#include "layers/builder/presets.h"
#include "train/data/run_data.h"
#include "train/experiment.h"
#include "train/planning/benchmark.h"
#include "train/resolve_config.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

namespace whisker {
namespace {

Recording record_once(const StudyStep& step, bool values, ReluDecisions* relus = nullptr) {
  StepRecorder recorder({.values = values, .device = step.device, .relus = relus});
  step.run(recorder);
  Recording recording = recorder.recording();
  recording.title = step.title;
  return recording;
}

Recording record_twice(const StudyStep& step, bool values, ReluDecisions* relus = nullptr) {
  record_once(step, false);  // the first pass pays for memory and threads
  return record_once(step, values, relus);
}

void tell_assumed(const StudyStep& step, const Invocation& invocation) {
  if (step.assumed.empty() || invocation.verbosity < 0) return;
  tell(fmt::format("study: {}\n", step.assumed));
}

// What expected_build() takes where there are no data to look at, a line; "" where there are.
std::string assumed_sizes(const Config& config, const StudyOptions& given) {
  std::error_code error;
  if (std::filesystem::exists(config.data.train, error)) return "";
  const BuildOptions build = expected_build(config);
  std::vector<std::string> sizes, options;
  if (given.classes == 0 && build.classes > 0 && !build.every_step) {
    sizes.push_back(counted(build.classes, "class"));
    options.emplace_back("--classes N");
  }
  if (build.vocabulary > 0 && config.data.text.max_vocabulary == 0) {
    sizes.push_back(fmt::format("a vocabulary of {} tokens", build.vocabulary));
    options.emplace_back("data.text.max_vocabulary=N");
  }
  if (build.batch_axis == 1 && config.data.kind != DataKind::series && given.steps == 0) {
    sizes.push_back(fmt::format("sequences of {} steps", build.input[0]));
    options.emplace_back("--steps N");
  }
  if (sizes.empty()) return "";
  return fmt::format(
      "assumed, with nothing at data.train: {}; {} or data.train=PATH decides otherwise",
      fmt::join(sizes, ", "), fmt::join(options, ", "));
}

StudyStep network_step(ShownConfig shown, StudyOptions options, const Invocation& invocation) {
  Config config = resolve_config(std::move(shown.config));
  if (options.classes == 0) options.classes = shown.classes;
  const std::string sizes = assumed_sizes(config, options);
  if (!sizes.empty() && invocation.verbosity >= 0) tell(fmt::format("study: {}\n", sizes));
  const Device device = chosen_device(config.device, invocation);
  options.tensor = {.dtype = compute_dtype(config.precision, device), .device = device};
  configure_backend(config, options.tensor.device);
  std::string assumed = fmt::format("inputs are random numbers of seed={}", config.seed);
  if (config.init.from.empty()) {
    assumed += ", weights those that training begins with; init.from=WEIGHTS decides otherwise";
  }
  if (config.loss.class_weights == ClassWeighting::balanced) {
    assumed +=
        "; all classes weigh the same, as loss.class_weights needs the data's counts; study why -e "
        "'cross_entropy(x, t, class_weight=c)' shows what weights do";
  }
  const auto network = std::make_shared<StudyNetwork>(std::move(config), options);
  if (invocation.verbosity >= 0) {
    for (const std::string& note : network->notes()) tell(note + "\n");
  }
  return {.title = network->describe(),
          .assumed = std::move(assumed),
          .device = options.tensor.device,
          .dtype = options.tensor.dtype,
          .run = [network](StepObserver& recorder) { network->run(recorder); },
          .add_optimizer = [network] { network->add_optimizer(); },
          .update = [network] { network->update(); },
          .predicted_bytes = network->predicted_bytes()};
}

// A precision that `device` computes in.
DType dtype_named(const std::string& name, Device device) {
  std::vector<std::string_view> known;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    if (!computes_in(device.kind, dtype)) continue;
    if (name == name_of(dtype)) return dtype;
    known.push_back(name_of(dtype));
  }
  fail(ErrorKind::usage, "study: precision: expected one of {} on {}{}, got {}.",
       fmt::join(known, ", "), device,
       device == reference_device ? "" : ", or f64 with device=reference", excerpt(name));
}

// Takes device, seed and precision out of the bindings.
Expression::Options expression_options(std::vector<std::string>& bindings,
                                       const Invocation& invocation) {
  Expression::Options options{.seed = take_seed(bindings)};
  std::string device = "cpu", precision = "f32";
  std::erase_if(bindings, [&](const std::string& text) {
    if (text.starts_with("device=")) device = text.substr(std::string_view("device=").size());
    if (text.starts_with("precision=")) {
      precision = text.substr(std::string_view("precision=").size());
    }
    return text.starts_with("device=") || text.starts_with("precision=");
  });
  options.tensor.device = chosen_device(device, invocation);
  options.tensor.dtype = dtype_named(precision, options.tensor.device);
  return options;
}

StudyStep expression_step(const std::string& formula, const std::vector<NamedFormula>& bindings,
                          const Expression::Options& options, bool say, const std::string& title) {
  const auto expression = std::make_shared<Expression>(formula, bindings, options);
  if (say && !expression->leaves().empty()) {
    tell(
        fmt::format("study -e: gradients are taken of {}, random numbers are those of seed={}; "
                    "{}='const(...)' and seed=N decide otherwise\n",
                    fmt::join(expression->leaves(), ", "), options.seed, expression->leaves()[0]));
  }
  return {.title = title + expression->describe(),
          .device = options.tensor.device,
          .dtype = options.tensor.dtype,
          .run = [expression](StepObserver& recorder) { expression->run(recorder); }};
}

[[noreturn]] void refuse_target(const std::string& name) {
  std::vector<std::string> known = builtin_network_names();
  const std::vector<std::string> presets = preset_names();
  known.insert(known.end(), presets.begin(), presets.end());
  const std::string nearest = nearest_name(name, known);
  fail(ErrorKind::usage,
       "study: no file, built-in network or preset is called {}{} Built in: {}. whisker models "
       "lists the presets.",
       excerpt(name), nearest.empty() ? "." : fmt::format("; did you mean '{}'?", nearest),
       fmt::join(builtin_network_names(), ", "));
}

}  // namespace

uint64_t take_seed(std::vector<std::string>& bindings) {
  uint64_t seed = 0;
  std::erase_if(bindings, [&](const std::string& text) {
    if (!text.starts_with("seed=")) return false;
    const std::string value = text.substr(std::string_view("seed=").size());
    const bool digits = !value.empty() && value.size() < 19 &&
                        value.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) fail(ErrorKind::usage, "study: seed: expected a number, got {}.", excerpt(value));
    seed = std::stoull(value);
    return true;
  });
  return seed;
}

// CLI11's own prints the whole range of a double when a number is not above zero.
const CLI::Validator& above_zero() {
  static const CLI::Validator validator(
      [](std::string& text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) && number > 0
                   ? std::string()
                   : fmt::format("expected a number above 0, got '{}'", text);
      },
      "POSITIVE");
  return validator;
}

void refuse_network_options(const StudyOptions& given, const std::string& target) {
  const std::pair<const char*, bool> options[] = {{"--batch-size", given.batch > 0},
                                                  {"--steps", given.steps > 0},
                                                  {"--cells", given.cells},
                                                  {"--classes", given.classes > 0}};
  for (const auto& [option, is_given] : options) {
    if (!is_given) continue;
    fail(ErrorKind::usage,
         "study: {}: expected a YAML file or a preset as TARGET, got {}. Leave {} out.", option,
         target, option);
  }
}

bool is_recording(const StudyTarget& target) {
  return target.expression.empty() && file_ending(target.name) == ".safetensors";
}

void refuse_recording_options(const StudyTarget& target) {
  refuse_network_options(target.network, fmt::format("the recording {}", excerpt(target.name)));
  if (target.arguments.empty()) return;
  fail(ErrorKind::usage, "study: {}: a recording is shown as it is: overrides go with a YAML file.",
       excerpt(target.arguments[0]));
}

void add_target(CLI::App* command, StudyTarget& target) {
  command->add_option("TARGET", target.name,
                      fmt::format("YAML file, preset, file of study record, or one of {}",
                                  fmt::join(builtin_network_names(), ", ")));
  command->add_option("OVERRIDES", target.arguments, "section.key=value; with -e NAME=VALUE");
  add_expression(command, target);
}

void add_expression(CLI::App* command, StudyTarget& target) {
  command->add_option("-e,--expression", target.expression,
                      "A loss in the operators' own names; NAME=VALUE gives it its tensors");
}

size_t StudyView::width() const {
  constexpr size_t most = 100;
  const size_t terminal = table_width();
  return wide ? 0 : terminal == 0 ? most : std::min(terminal, most);
}

void add_view_options(CLI::App* command, StudyView& view) {
  command->add_flag("--wide", view.wide, "Lines of any length, instead of 100 columns");
  add_json_option(command, view);
}

void add_json_option(CLI::App* command, StudyView& view) {
  command->add_flag("--json", view.json, "One JSON object");
}

void add_network_options(CLI::App* command, StudyTarget& target, const char* batch) {
  StudyOptions& network = target.network;
  command->add_option("--batch-size,--batch", network.batch, batch)->check(above_zero());
  command->add_option("--steps", network.steps, "Steps of sequences (as in data.train)")
      ->check(above_zero());
  command->add_flag("--cells", network.cells, "Recurrent layers step by step, in plain operators");
  command->add_option("--classes", network.classes, "Number of classes (those of data.train, or 2)")
      ->check(above_zero());
}

ShownConfig read_study_config(const StudyTarget& target, const Invocation& invocation) {
  return read_shown_config(target.name, target.arguments,
                           {.given = target.network.classes, .options = "--classes N"}, invocation);
}

Recording record_target(const StudyTarget& target, bool values, const Invocation& invocation,
                        Outputs* outputs) {
  if (is_recording(target)) {
    refuse_recording_options(target);
    if (outputs) outputs->add_input(target.name);
    return read_recording(SafetensorsFile::open(target.name));
  }
  const StudyStep step = study_step(target, invocation, outputs);
  if (values) tell_assumed(step, invocation);
  return record_twice(step, values, target.relus);
}

MeasuredStep record_measured(const StudyTarget& target, bool values, const Invocation& invocation,
                             Outputs* outputs) {
  if (is_recording(target)) {
    return {.recording = record_target(target, values, invocation, outputs),
            .times = "times and ceilings are the recording's"};
  }
  const StudyStep step = study_step(target, invocation, outputs);
  if (values) tell_assumed(step, invocation);
  const Ceilings ceilings = measure_ceilings(step.device, step.dtype);
  backend_of(step.device).empty_cache();
  const auto start = std::chrono::steady_clock::now();
  Recording recording = record_twice(step, values);
  recording.ceilings = ceilings;
  // Reading values lets a GPU wait for the next operator: one step more without.
  const int most_steps = values ? 2 : 5;
  constexpr auto enough = std::chrono::seconds(4);
  int steps = 1;
  for (; steps < most_steps && (values || std::chrono::steady_clock::now() - start < enough);
       ++steps) {
    const Recording again = record_once(step, false);
    for (size_t i = 0; i < recording.entries.size() && i < again.entries.size(); ++i) {
      TapeEntry& entry = recording.entries[i];
      entry.forward_ms = std::min(entry.forward_ms, again.entries[i].forward_ms);
      entry.backward_ms = std::min(entry.backward_ms, again.entries[i].backward_ms);
    }
  }
  return {.recording = std::move(recording),
          .times = steps == 1 ? "times are those of one step"
                              : fmt::format("times are the shortest of {} steps", steps)};
}

StudyStep study_step(const StudyTarget& target, const Invocation& invocation, Outputs* outputs) {
  const bool say = invocation.verbosity >= 0;
  std::vector<std::string> arguments = target.arguments;
  if (!target.expression.empty()) {
    refuse_network_options(target.network, "-e FORMULA");
    if (!target.name.empty()) arguments.insert(arguments.begin(), target.name);
    const Expression::Options options = expression_options(arguments, invocation);
    std::vector<NamedFormula> bindings;
    for (const std::string& one : arguments) bindings.push_back(binding_of(one));
    return expression_step(target.expression, bindings, options, say, "");
  }
  if (target.name.empty()) {
    fail(ErrorKind::usage,
         "study: expected a TARGET (a YAML file, a recording, a preset, or one of {}) or -e "
         "FORMULA.",
         fmt::join(builtin_network_names(), ", "));
  }
  std::error_code error;
  const std::filesystem::path path = target.name;
  const bool exists = std::filesystem::exists(path, error);
  const BuiltinNetwork* const builtin = exists ? nullptr : find_builtin_network(target.name);
  if (builtin) {
    refuse_network_options(target.network, fmt::format("{}, which is built in", builtin->name));
    const Expression::Options options = expression_options(arguments, invocation);
    if (!arguments.empty()) {
      fail(ErrorKind::usage,
           "study: {}: {} is built in and takes device, seed and precision alone; -e takes "
           "other values.",
           excerpt(arguments[0]), builtin->name);
    }
    return expression_step(std::string(builtin->formula), builtin->bindings, options, false,
                           fmt::format("{}: ", builtin->name));
  }
  const bool is_name = path.extension().empty() && !path.has_parent_path();
  if (!exists && is_name && !find_preset(target.name)) refuse_target(target.name);
  ShownConfig shown = read_study_config(target, invocation);
  if (outputs) {
    const Config& config = shown.config;
    outputs->add_input(target.name);
    outputs->add_input(config.init.from);
    outputs->add_input(config.data.csv);
    for (const std::string& data : {config.data.train, config.data.val}) outputs->add_data(data);
  }
  StudyOptions options = target.network;
  if (options.batch == 0) options.batch = target.usual_batch;
  return network_step(std::move(shown), options, invocation);
}

}  // namespace whisker
