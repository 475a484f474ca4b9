// whisker evaluate WEIGHTS DATA...: loss and the task's figures over pictures, text, rows or a
// series, with the classes, preprocessing, vocabulary and scaling of the weights file. What cannot
// be read is reported and passed over; the exit code is 3 when there was any.
#include "train/evaluate.h"

#include "apps/command.h"
#include "apps/device_choice.h"
#include "apps/inputs.h"
#include "core/io/json.h"
#include "data/device_loader.h"
#include "data/labelled_files.h"
#include "data/picture_dataset.h"
#include "train/device_name.h"
#include "train/experiment.h"
#include "train/labelled_sequences.h"
#include "train/plan_cache.h"

namespace whisker {
namespace {

struct EvaluateArguments {
  std::string weights;
  std::vector<std::string> inputs;
  std::string label_pattern;
  std::string csv;
  std::string label_column, text_column;
  bool json = false;
  std::string device = "auto";
  int64_t batch_size = 32;
  int workers = auto_workers;
};

constexpr int schema_version = 1;

// What could not be read, named on stderr at once and counted in the result.
class Unreadable {
 public:
  void add(const std::string& path, const std::string& reason) {
    tell_unreadable(path, reason);
    files_.push_back({path, bare_reason(path, reason)});
  }
  bool any() const { return !files_.empty(); }
  size_t count() const { return files_.size(); }
  void write(JsonWriter& json) const {
    json.key("unreadable").begin_array();
    for (const SkippedFile& file : files_) {
      json.begin_object().field("path", file.path).field("error", file.reason).end_object();
    }
    json.end_array();
  }

 private:
  std::vector<SkippedFile> files_;
};

// Writes what was measured to stdout; returns the exit code.
int print_metrics(const Network& network, const Metrics& metrics, const Unreadable& unreadable,
                  bool as_json) {
  if (as_json) {
    JsonWriter json;
    json.begin_object().field("schema_version", schema_version);
    metrics.write(json);
    unreadable.write(json);
    print_result(json.end_object().str() + "\n");
  } else {
    const std::string table = metrics.table();
    print_result(fmt::format(
        "{} {}  {}{}\n{}{}", network.signature().examples(), metrics.count(), metrics.line(),
        unreadable.any() ? fmt::format("  unreadable {}", unreadable.count()) : std::string(),
        table.empty() ? "" : "\n", table));
  }
  return unreadable.any() ? static_cast<int>(ErrorKind::data) : 0;
}

int evaluate_pictures(const Network& network, const EvaluateArguments& arguments) {
  const ImageFolder files =
      label_files(expand_stdin(arguments.inputs), {.classes = network.classes(),
                                                   .label_pattern = arguments.label_pattern,
                                                   .csv = arguments.csv});
  Unreadable unreadable;
  for (const SkippedFile& file : files.unreadable) unreadable.add(file.path, file.reason);
  if (files.size() == 0) fail(ErrorKind::data, "evaluate: no pictures found in what was given");
  const auto dataset = std::make_shared<PictureDataset>(
      files, PictureDatasetOptions{.preprocess = network.preprocess()});
  const Device device = network.arena().device();
  const auto loader = make_loader(dataset, sequential_sampler(files.size()),
                                  {.batch_size = arguments.batch_size,
                                   .workers = arguments.workers,
                                   .on_bad = OnBad::skip,
                                   .max_bad = 1},
                                  {.device = device, .dtype = network.arena().compute_dtype()});
  const Objective objective(network.model(), {}, files.counts(), device);
  const auto metrics = evaluate(network, objective, *loader);
  for (const BadSample& bad : loader->bad_samples()) {
    unreadable.add(files.file(bad.index).string(), bad.reason);
  }
  if (metrics->count() == 0) fail(ErrorKind::data, "evaluate: no picture could be read");
  return print_metrics(network, *metrics, unreadable, arguments.json);
}

int evaluate_sequences(const Network& network, const EvaluateArguments& arguments) {
  if (arguments.inputs.size() != 1 || !arguments.csv.empty() || !arguments.label_pattern.empty()) {
    fail(ErrorKind::usage,
         "evaluate: a network trained on {} expects one file or folder laid out as its training "
         "data, and neither --csv nor --label-pattern.",
         network.signature().examples());
  }
  const LabelledSequences data =
      open_labelled(network, arguments.inputs.front(),
                    {.label_column = arguments.label_column, .text_column = arguments.text_column},
                    arguments.batch_size);
  Unreadable unreadable;
  for (const BadRow& row : data.bad) unreadable.add(row.place, row.reason);
  const std::vector<int64_t> counts(network.classes().size(), 1);  // of no weight here
  const Objective objective(network.model(), network.signature(), {}, counts,
                            network.arena().device());
  return print_metrics(network, *evaluate(network, objective, *data.source), unreadable,
                       arguments.json);
}

int run_evaluate(const EvaluateArguments& arguments, const Invocation& invocation) {
  const Device device = chosen_device(arguments.device, invocation);
  load_plans(device);
  const Network network = Network::load(weights_file(arguments.weights), device);
  if (arguments.inputs.empty() && arguments.csv.empty()) {
    fail(ErrorKind::usage,
         "evaluate: expected {} to measure on: folders, files, '-' for a list on standard "
         "input, or --csv FILE.",
         network.signature().examples());
  }
  const bool pictures = std::holds_alternative<Preprocess>(network.signature().input);
  const int code =
      pictures ? evaluate_pictures(network, arguments) : evaluate_sequences(network, arguments);
  save_plans(device);
  return code;
}

}  // namespace

void add_evaluate_command(CLI::App& app, Invocation& invocation) {
  CLI::App* evaluate = app.add_subcommand("evaluate", "Measure a trained network on labelled data");
  auto arguments = std::make_shared<EvaluateArguments>();
  evaluate->add_option("WEIGHTS", arguments->weights, "Weights file (safetensors)")->required();
  evaluate->add_option("DATA", arguments->inputs,
                       "Text, rows, series: a file or folder like the training data. Pictures: "
                       "folders of class folders, class folders, files (their folder's name is the "
                       "label), or - for a list on stdin");
  CLI::Option* pattern = evaluate->add_option("--label-pattern", arguments->label_pattern,
                                              "Labels from file names, as '{label}.*.jpg'");
  evaluate
      ->add_option("--csv", arguments->csv,
                   "Pictures and labels from a CSV (columns path, label; paths relative to the one "
                   "folder given, or to the CSV's own)")
      ->excludes(pattern);
  evaluate->add_option("--label-column", arguments->label_column,
                       "Of text or rows: a number from 1, or a name in the first row");
  evaluate->add_option("--text-column", arguments->text_column, "Of text, likewise");
  evaluate->add_flag("--json", arguments->json, "Machine-readable result");
  evaluate->add_option("--device", arguments->device, std::string(device_names))
      ->capture_default_str();
  evaluate->add_option("--batch-size", arguments->batch_size, "Examples at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  evaluate->add_option("--workers", arguments->workers, "Decoding threads (one per core)")
      ->check(CLI::Range(0, 1024));
  evaluate->callback([&invocation, arguments] {
    invocation.run = [&invocation, arguments] { return run_evaluate(*arguments, invocation); };
  });
}

}  // namespace whisker
