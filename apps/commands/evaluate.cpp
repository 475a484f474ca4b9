// whisker evaluate WEIGHTS DATA...: loss and the task's figures over images, text, rows or a
// series, with the classes, preprocessing, vocabulary and scaling of the weights file. Unreadable
// inputs are reported and skipped; the exit code is then 3. --split measures on the run's own data.
#include "apps/commands/acting_options.h"
#include "apps/commands/calibrated_weights.h"
#include "apps/commands/evaluate_data.h"
#include "apps/commands/evaluated_examples.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"
#include "core/io/yaml.h"
#include "train/config/device_name.h"
#include "train/data/run_split.h"
#include "train/device/autotune_cache.h"
#include "train/device/device_choice.h"
#include "train/experiment.h"
#include "train/model/hub_folder.h"
#include "train/report/report_examples.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

namespace whisker {
namespace {

void check_split_arguments(const EvaluateArguments& arguments, const std::optional<PastRun>& run) {
  if (!run) {
    fail(ErrorKind::checkpoint,
         "evaluate --split: expected weights in the run folder that trained them, next to "
         "config.yaml and last/, got {}. Name a folder of data instead.",
         printable(arguments.weights));
  }
  if (arguments.inputs.size() > 1) {
    fail(ErrorKind::usage,
         "evaluate --split: expected at most one folder, where the run's data are now, got {}.",
         arguments.inputs.size());
  }
}

// train.batch_size of a run; nothing for weights made elsewhere.
std::optional<int64_t> trained_batch_size(const SafetensorsFile& weights) {
  const auto config = weights.metadata().find("config");
  if (config == weights.metadata().end()) return std::nullopt;
  try {
    const YamlNode root = YamlNode::parse(config->second, "config");
    const YamlNode* const size = root.is_map() ? root.find_path("train.batch_size") : nullptr;
    if (size) return size->as_int({.min = 1, .max = int64_t{1} << 31});
  } catch (const Error&) {  // of another format
  }
  return std::nullopt;
}

// A text is read as so many rows: other rows give each token another beginning.
void choose_batch_size(const SafetensorsFile& weights, const Network& network,
                       EvaluateArguments& arguments, const Invocation& invocation) {
  constexpr int64_t usual = 32;
  if (arguments.batch_size > 0) return;
  arguments.batch_size = usual;
  if (network.signature().task() != Task::language_model) return;
  const std::optional<int64_t> trained = trained_batch_size(weights);
  arguments.batch_size = trained.value_or(usual);
  tell_notes({fmt::format("the text is read as {} rows{}: --batch-size decides otherwise",
                          arguments.batch_size, trained ? ", as in training" : "")},
             invocation);
}

// Opens the weights once: they say what is computed in, too, and a language model's batches.
Network load_network(EvaluateArguments& arguments, Device device, const GivenFacts& facts,
                     RankGroup& ranks, const Invocation& invocation) {
  const SafetensorsFile file = open_described_weights(arguments.weights, facts.weights_key);
  StoredPrecision computes;
  if (arguments.precision) {
    computes.dtype = compute_dtype(*arguments.precision, device);
  } else {
    computes = stored_precision(file, device);
  }
  for (const DType dtype : ranks.gather(computes.dtype)) {
    if (dtype == computes.dtype) continue;
    computes = {.dtype = DType::f32,
                .note =
                    "not all ranks compute in the precision of the weights' validation: all "
                    "take f32; --precision decides otherwise"};
    break;
  }
  Network network = Network::load(file, device, facts, computes.dtype);
  require_same_weights(ranks, arguments.weights, network.signature());
  network.fix_weights();
  tell_notes(network.notes(), invocation);
  if (!computes.note.empty()) tell_notes({computes.note}, invocation);
  choose_batch_size(file, network, arguments, invocation);
  return network;
}

int evaluate_as_rank(EvaluateArguments arguments, RankGroup& ranks, Invocation& invocation) {
  require_same_command(ranks, *invocation.command);
  if (arguments.worst > 0 && arguments.report.empty()) {
    fail(ErrorKind::usage, "evaluate: --worst N goes with --report FILE.html.");
  }
  if (arguments.worst == 0) arguments.worst = shown_mistakes;
  if (!ranks.leads()) invocation.verbosity = -1;
  Outputs outputs = make_outputs("evaluate", arguments.force, invocation);
  for (const std::string& file : {arguments.weights, arguments.csv, arguments.facts.classes}) {
    outputs.add_input(file);
  }
  for (const std::string& input : arguments.inputs) {
    if (input == "-") {
      outputs.add_input("/dev/stdin");  // may be a file
    } else {
      outputs.add_data(input);
    }
  }
  EvaluatedFiles reports(outputs, ranks.leads() ? arguments.predictions : "",
                         ranks.leads() ? arguments.report : "");
  CalibratedWeights calibrated(outputs, arguments, ranks);
  const EvaluateOutputs files{.reports = reports, .calibrated = calibrated};
  const Device device = chosen_device(device_of_rank(arguments.device, ranks), invocation);
  load_algorithms(device);
  GivenFacts facts = arguments.facts.read();
  facts.positive_class = arguments.positive_class;
  const Network network = load_network(arguments, device, facts, ranks, invocation);
  OptionUse use = use_of(network.signature());
  use.reads_stdin = std::ranges::count(arguments.inputs, "-") > 0;
  use.names_data = arguments.split.empty();
  require_acting_options(*invocation.command, use);
  std::optional<PastRun> run;
  try {
    run = run_of(arguments.weights);
  } catch (const Error&) {  // without --split it is needed for a warning only
    if (!arguments.split.empty()) throw;
  }
  if (!arguments.split.empty()) {
    check_split_arguments(arguments, run);
  } else if (arguments.inputs.empty() && arguments.csv.empty()) {
    fail(ErrorKind::usage,
         "evaluate: expected {} to measure on: folders, files, '-' for a list on standard "
         "input, --csv FILE, or --split val for the run's validation split.",
         network.signature().examples());
  }
  const bool images = std::holds_alternative<Preprocess>(network.signature().input);
  const int code =
      images ? evaluate_images(network, arguments, run, files, ranks, invocation.verbosity)
             : evaluate_sequences(network, arguments, run, files, ranks, invocation.verbosity);
  if (ranks.leads()) tell_notes(save_algorithms(device), invocation);
  return code;
}

int run_evaluate(const EvaluateArguments& arguments, Invocation& invocation) {
  if (const int count = ranks_to_start(arguments.gpus, arguments.device); count > 0) {
    return start_ranks(count);
  }
  RunRanks ranks;
  return ranks.run([&] { return evaluate_as_rank(arguments, *ranks.group(), invocation); });
}

}  // namespace

void add_evaluate_command(CLI::App& app, Invocation& invocation) {
  CLI::App* evaluate = app.add_subcommand("evaluate", "Measure a trained network on labelled data");
  auto arguments = std::make_shared<EvaluateArguments>();
  evaluate->add_option("WEIGHTS", arguments->weights, weights_help)->required();
  evaluate->add_option("DATA", arguments->inputs,
                       "Text, rows, series: a file or folder like the training data. Images: "
                       "folders of class folders, class folders, files (their folder's name is the "
                       "label), or - for a list on stdin");
  CLI::Option* pattern = evaluate->add_option("--label-pattern", arguments->label_pattern,
                                              "Labels from file names, as '{label}.*.jpg'");
  CLI::Option* csv =
      evaluate
          ->add_option("--csv", arguments->csv,
                       "Examples and labels from a CSV (columns path, label), as --predictions "
                       "writes it. Images: paths relative to the one folder given, or to the CSV's "
                       "own; text, rows: files or lines of DATA")
          ->excludes(pattern);
  evaluate
      ->add_option("--split", arguments->split,
                   "The training or validation data of the run whose folder holds WEIGHTS; DATA "
                   "says where they are now, when they moved")
      ->check(CLI::IsMember({"train", "val"}))
      ->excludes(pattern)
      ->excludes(csv);
  evaluate->add_option("--label-column", arguments->label_column,
                       "Of text or rows: a number from 1, or a name in the first row");
  evaluate->add_option("--text-column", arguments->text_column, "Of text, likewise");
  evaluate->add_option("--positive-class", arguments->positive_class,
                       "Class whose F1 is f1_class (that of the training run)");
  evaluate
      ->add_option("--header", arguments->header,
                   "Whether the first row of a table holds the columns' names")
      ->check(CLI::IsMember({"auto", "true", "false"}));
  evaluate->add_flag("--null", arguments->null, "Names on stdin end with NUL, as of find -print0");
  evaluate
      ->add_option("--predictions", arguments->predictions,
                   "Write a CSV of every image, text or row: path, label, prediction, loss, "
                   "probabilities; --csv reads it")
      ->check(check_output_name);
  evaluate
      ->add_option("--worst", arguments->worst,
                   "So many images, texts or rows of the largest loss in the page of --report "
                   "(12)")
      ->check(CLI::Range(1, 10'000));
  evaluate
      ->add_option(
          "--report,--out", arguments->report,
          "Write one HTML page: figures, confusion matrix, reliability, the worst examples")
      ->check(check_output_name);
  add_force(evaluate, arguments->force);
  evaluate->add_flag("--json", arguments->json, "Machine-readable result");
  evaluate->add_option("--device", arguments->device, std::string(device_names))
      ->capture_default_str();
  evaluate->add_option("--gpus", arguments->gpus,
                       "Use so many GPUs of this machine, or all: one process each");
  evaluate
      ->add_option("--batch-size,--batch", arguments->batch_size,
                   "Examples at a time, on each device (of a language model that of its training)")
      ->default_str("32")
      ->check(CLI::Range(1, 4096));
  evaluate->add_option("--workers", arguments->workers, "Decoding threads (one per core)")
      ->check(CLI::Range(0, 1024));
  evaluate->add_flag("--tta", arguments->mirror,
                     "Images: average each image and its mirror image (test-time augmentation)");
  CLI::Option* calibrate =
      evaluate->add_flag("--calibrate", arguments->calibrate,
                         "Fit a temperature to these data, so that probabilities are right on "
                         "average, and write the weights with it to -o");
  evaluate
      ->add_option("-o,--output", arguments->calibrated,
                   "The new weights of --calibrate: *.safetensors")
      ->check(check_output_name)
      ->needs(calibrate);
  add_precision(evaluate, arguments->precision);
  arguments->facts.add_to(evaluate);
  set_action(evaluate, invocation, [&invocation, arguments] {
    arguments->weights = weights_in(arguments->weights);
    return run_evaluate(*arguments, invocation);
  });
}

}  // namespace whisker
