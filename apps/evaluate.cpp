// whisker evaluate WEIGHTS PICTURES...: accuracy, loss and a confusion matrix over labelled
// pictures, with the classes and the preprocessing of the weights file. What cannot be read is
// reported and passed over; the exit code is 3 when there was any.
#include "train/evaluate.h"

#include "apps/command.h"
#include "apps/inputs.h"
#include "core/io/json.h"
#include "data/device_loader.h"
#include "data/labelled_files.h"
#include "data/picture_dataset.h"
#include "train/experiment.h"
#include "train/plan_cache.h"

namespace whisker {
namespace {

struct EvaluateArguments {
  std::string weights;
  std::vector<std::string> inputs;
  std::string label_pattern;
  std::string csv;
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

int run_evaluate(const EvaluateArguments& arguments) {
  const Device device = resolve_device(arguments.device);
  load_plans(device);
  const Classifier classifier = Classifier::load(weights_file(arguments.weights), device);
  if (arguments.inputs.empty() && arguments.csv.empty()) {
    fail(ErrorKind::usage,
         "evaluate: expected pictures to measure on: folders, files, '-' for a list on standard "
         "input, or --csv FILE.");
  }
  const ImageFolder files =
      label_files(expand_stdin(arguments.inputs), {.classes = classifier.classes(),
                                                   .label_pattern = arguments.label_pattern,
                                                   .csv = arguments.csv});
  Unreadable unreadable;
  for (const SkippedFile& file : files.unreadable) unreadable.add(file.path, file.reason);
  if (files.size() == 0) fail(ErrorKind::data, "evaluate: no pictures found in what was given");
  const auto dataset = std::make_shared<PictureDataset>(
      files, PictureDatasetOptions{.preprocess = classifier.preprocess()});
  const auto loader = make_loader(dataset, sequential_sampler(files.size()),
                                  {.batch_size = arguments.batch_size,
                                   .workers = arguments.workers,
                                   .on_bad = OnBad::skip,
                                   .max_bad = 1},
                                  {.device = device, .dtype = classifier.arena().compute_dtype()});
  const Objective objective(classifier.model(), {}, files.counts(), classifier.arena().device());
  const ClassificationMetrics metrics = evaluate(classifier, objective, *loader);
  save_plans(device);
  for (const BadSample& bad : loader->bad_samples()) {
    unreadable.add(files.file(bad.index).string(), bad.reason);
  }
  if (metrics.count() == 0) fail(ErrorKind::data, "evaluate: no picture could be read");
  if (arguments.json) {
    JsonWriter json;
    json.begin_object().field("schema_version", schema_version);
    metrics.write(json, classifier.classes());
    unreadable.write(json);
    print_result(json.end_object().str() + "\n");
  } else {
    print_result(fmt::format(
        "pictures {}  accuracy {:.4f}  loss {:.4f}{}\n\n{}", metrics.count(), metrics.accuracy(),
        metrics.loss(),
        unreadable.any() ? fmt::format("  unreadable {}", unreadable.count()) : std::string(),
        metrics.table(classifier.classes())));
  }
  return unreadable.any() ? static_cast<int>(ErrorKind::data) : 0;
}

}  // namespace

void add_evaluate_command(CLI::App& app, Invocation& invocation) {
  CLI::App* evaluate =
      app.add_subcommand("evaluate", "Measure a trained classifier on labelled pictures");
  auto arguments = std::make_shared<EvaluateArguments>();
  evaluate->add_option("WEIGHTS", arguments->weights, "Weights file (safetensors)")->required();
  evaluate->add_option("PICTURES", arguments->inputs,
                       "Folders of class folders, class folders, files (their folder's name is the "
                       "label), or - for a list on stdin");
  CLI::Option* pattern = evaluate->add_option("--label-pattern", arguments->label_pattern,
                                              "Labels from file names, as '{label}.*.jpg'");
  evaluate
      ->add_option("--csv", arguments->csv,
                   "Pictures and labels from a CSV (columns path, label; paths relative to the one "
                   "folder given, or to the CSV's own)")
      ->excludes(pattern);
  evaluate->add_flag("--json", arguments->json, "Machine-readable result");
  evaluate->add_option("--device", arguments->device, "auto, cpu, reference or cuda:N")
      ->capture_default_str();
  evaluate->add_option("--batch-size", arguments->batch_size, "Pictures at a time")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  evaluate->add_option("--workers", arguments->workers, "Decoding threads (one per core)")
      ->check(CLI::Range(0, 1024));
  evaluate->callback([&invocation, arguments] {
    invocation.run = [arguments] { return run_evaluate(*arguments); };
  });
}

}  // namespace whisker
