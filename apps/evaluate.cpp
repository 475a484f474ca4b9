// whisker evaluate WEIGHTS FOLDER: accuracy, loss and a confusion matrix over a folder of class
// folders, with the classes and the preprocessing of the weights file.
#include "train/evaluate.h"

#include "apps/command.h"
#include "apps/terminal.h"
#include "core/io/json.h"
#include "data/loader.h"
#include "data/picture_dataset.h"
#include "train/experiment.h"
#include "train/plan_cache.h"

namespace whisker {
namespace {

struct EvaluateArguments {
  std::string weights;
  std::string folder;
  std::string label_pattern;
  bool json = false;
  std::string device = "auto";
  int64_t batch_size = 32;
  int workers = auto_workers;
};

constexpr int schema_version = 1;

int run_evaluate(const EvaluateArguments& arguments) {
  const Device device = resolve_device(arguments.device);
  load_plans(device);
  const Classifier classifier = Classifier::load(arguments.weights, device);
  const ImageFolder files =
      open_image_folder(arguments.folder, {.label_pattern = arguments.label_pattern,
                                           .classes = classifier.classes(),
                                           .name = "evaluate"});
  const auto dataset = std::make_shared<PictureDataset>(
      files, PictureDatasetOptions{.preprocess = classifier.preprocess()});
  Loader loader(dataset, sequential_sampler(files.size()),
                {.batch_size = arguments.batch_size,
                 .workers = arguments.workers,
                 .on_bad = OnBad::skip,
                 .max_bad = 1});
  const Objective objective(classifier.model(), {}, files.counts(), classifier.arena().device());
  const ClassificationMetrics metrics = evaluate(classifier, objective, loader);
  save_plans(device);
  for (const BadSample& bad : loader.bad_samples()) {
    tell(fmt::format("{} {}\n", paint(stderr, "whisker: error:", Color::red), bad.reason));
  }
  if (metrics.count() == 0) fail(ErrorKind::data, "{}: no picture could be read", arguments.folder);
  if (arguments.json) {
    JsonWriter json;
    json.begin_object().field("schema_version", schema_version);
    metrics.write(json, classifier.classes());
    json.field("unreadable", loader.bad_samples().size()).end_object();
    print_result(json.str() + "\n");
  } else {
    print_result(fmt::format("pictures {}  accuracy {:.4f}  loss {:.4f}\n\n{}", metrics.count(),
                             metrics.accuracy(), metrics.loss(),
                             metrics.table(classifier.classes())));
  }
  return loader.bad_samples().empty() ? 0 : static_cast<int>(ErrorKind::data);
}

}  // namespace

void add_evaluate_command(CLI::App& app, Invocation& invocation) {
  CLI::App* evaluate =
      app.add_subcommand("evaluate", "Measure a trained classifier on labelled pictures");
  auto arguments = std::make_shared<EvaluateArguments>();
  evaluate->add_option("WEIGHTS", arguments->weights, "Weights file (safetensors)")->required();
  evaluate->add_option("FOLDER", arguments->folder, "Folder of class folders")->required();
  evaluate->add_option("--label-pattern", arguments->label_pattern, "Labels from file names");
  evaluate->add_flag("--json", arguments->json, "Machine-readable result");
  evaluate->add_option("--device", arguments->device, "auto, cpu, reference or cuda:N");
  evaluate->add_option("--batch-size", arguments->batch_size, "Pictures at a time")
      ->check(CLI::Range(1, 4096));
  evaluate->add_option("--workers", arguments->workers, "Decoding threads")
      ->check(CLI::Range(0, 1024));
  evaluate->callback([&invocation, arguments] {
    invocation.run = [arguments] { return run_evaluate(*arguments); };
  });
}

}  // namespace whisker
