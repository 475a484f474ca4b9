// whisker evaluate WEIGHTS DATA...: loss and the task's figures over images, text, rows or a
// series, with the classes, preprocessing, vocabulary and scaling of the weights file. Unreadable
// inputs are reported and skipped; the exit code is then 3. --split measures on the run's own data.
#include "train/metrics/evaluate.h"

#include "apps/commands/evaluated_images.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/rank_rounds.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/facts.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/torch_file.h"
#include "data/images/image_dataset.h"
#include "data/images/labelled_files.h"
#include "data/images/png_bits.h"
#include "data/images/split_list.h"
#include "data/loader/device_loader.h"
#include "train/config/device_name.h"
#include "train/data/labelled_sequences.h"
#include "train/data/run_split.h"
#include "train/device/autotune_cache.h"
#include "train/device/device_choice.h"
#include "train/experiment.h"
#include "train/loop/rank_sums.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

struct EvaluateArguments {
  std::string weights;
  std::vector<std::string> inputs;
  std::string split;  // "": what `inputs` name
  std::string label_pattern;
  std::string csv;
  std::string label_column, text_column, positive_class;
  std::string header;  // "": as in training
  std::string predictions, out;
  size_t worst = 0;
  bool force = false;
  bool json = false;
  bool null = false;
  std::string device = "auto";
  std::string gpus;
  int64_t batch_size = 32;
  int workers = auto_workers;
  FactOptions facts;
  std::optional<PrecisionKind> precision;  // that of the file's validation
};

// Ranks take turns with whole batches: each is computed as one process would.

// The examples of this rank's batches, in order.
class OwnBatches final : public Sampler {
 public:
  OwnBatches(int64_t size, int64_t batch_size, const RankGroup& ranks) {
    for (int64_t i = 0; i < size; ++i) {
      if (i / batch_size % ranks.world() == ranks.rank()) indices_.push_back(i);
    }
  }
  int64_t size() const override { return std::ssize(indices_); }
  std::vector<int64_t> order(int64_t) const override { return indices_; }

 private:
  std::vector<int64_t> indices_;
};

// This rank's batches of a source.
class OwnBatchSource final : public BatchSource {
 public:
  OwnBatchSource(BatchSource& source, const RankGroup& ranks) : source_(source), ranks_(ranks) {}
  int64_t batches() const override { return source_.batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    source_.start_epoch(epoch, first_batch);
    next_ = first_batch;
  }
  std::optional<Batch> next() override {
    for (;;) {
      std::optional<Batch> batch = source_.next();
      if (!batch || next_++ % ranks_.world() == ranks_.rank()) return batch;
    }
  }
  LoaderStats stats() const override { return source_.stats(); }

 private:
  BatchSource& source_;
  const RankGroup& ranks_;
  int64_t next_ = 0;
};

// Unreadable inputs: reported on stderr at once and counted in the result.
class Unreadable {
 public:
  void add(const std::string& path, const std::string& reason) {
    tell_unreadable(path, reason);
    files_.push_back({path, bare_reason(path, reason)});
  }
  bool any() const { return !files_.empty(); }
  size_t count() const { return files_.size(); }
  void write(JsonWriter& json) const {
    json.list("unreadable", files_, [&](const SkippedFile& file) {
      json.begin_object().field("path", file.path).field("error", file.reason).end_object();
    });
  }

 private:
  std::vector<SkippedFile> files_;
};

// Writes the metrics to stdout; returns the exit code. `trained`: number of images that trained the
// network, if known.
int print_metrics(const Network& network, const Metrics& metrics, const Unreadable& unreadable,
                  bool as_json, std::optional<int64_t> trained = std::nullopt) {
  if (as_json) {
    JsonWriter json(NonFinite::null);
    json.begin_object().field("schema_version", 3);
    metrics.write(json);
    json.field("precision", name_of(network.arena().compute_dtype()));
    if (trained) json.field("trained_on", *trained);
    unreadable.write(json);
    print_result(json.end_object().str() + "\n");
  } else {
    const std::string table = metrics.table(terminal_width(stdout));
    print_result(fmt::format(
        "{} {}  {}{}\n{}{}", network.signature().examples(), metrics.count(), metrics.line(),
        unreadable.any() ? fmt::format("  unreadable {}", unreadable.count()) : std::string(),
        table.empty() ? "" : "\n", table));
  }
  return unreadable.any() ? static_cast<int>(ErrorKind::data) : 0;
}

// Counts the images that trained the weights, if the run folder lists them, and warns.
std::optional<int64_t> warn_of_trained(const ImageFolder& images, const std::optional<PastRun>& run,
                                       int verbosity) {
  std::error_code error;
  if (!run || !fs::exists(run->split(), error)) return std::nullopt;
  int64_t trained = 0;
  try {
    trained = count_trained(read_split(run->split()), run->config.data.train, images);
  } catch (const Error& damaged) {  // needed for a warning only
    tell(fmt::format("whisker: warning: {}\n", damaged.what()));
    return std::nullopt;
  }
  if (trained > 0 && verbosity >= 0) {
    tell(fmt::format(
        "whisker: warning: {} of these {} images trained the weights ({}): the metrics do not "
        "apply to other images. Use --split val for the run's validation split.\n",
        trained, images.size(), printable(run->split().string())));
  }
  return trained;
}

RunPart part_of(const EvaluateArguments& arguments) {
  return {.split = arguments.split,
          .where = arguments.inputs.empty() ? "" : arguments.inputs.front()};
}

// What could not be read by any rank, in order: number of the file, and why.
std::map<int64_t, std::string> bad_files(const BatchSource& source, RankGroup& ranks) {
  std::vector<std::string> own;
  for (const BadSample& bad : source.bad_samples()) {
    own.push_back(std::to_string(bad.index));
    own.push_back(bad.reason);
  }
  std::map<int64_t, std::string> all;
  for (const std::vector<std::string>& texts : gather_texts(ranks, own)) {
    for (size_t i = 0; i + 1 < texts.size(); i += 2)
      all.emplace(std::stoll(texts[i]), texts[i + 1]);
  }
  return all;
}

struct OwnImage {
  int64_t number = 0;  // among all
  std::vector<float> probabilities;
};

// Collective: on rank 0, the images of all ranks in order. They come a block at a time, as one
// message cannot hold any number of them.
std::vector<EvaluatedImage> images_of_all_ranks(std::vector<OwnImage> own, const ImageFolder& files,
                                                size_t width, RankGroup& ranks) {
  constexpr size_t block = 1024;
  const std::vector<int64_t> labels = files.labels();
  std::map<int64_t, EvaluatedImage> all;
  size_t most = 0;
  for (const size_t count : ranks.gather(own.size())) most = std::max(most, count);
  for (size_t begin = 0; begin < most; begin += block) {
    std::vector<std::string> rows;
    for (size_t i = begin; i < std::min(begin + block, own.size()); ++i) {
      const std::vector<float> probabilities = std::move(own[i].probabilities);
      std::string& row = rows.emplace_back();
      row.append(reinterpret_cast<const char*>(&own[i].number), sizeof(int64_t));
      row.append(reinterpret_cast<const char*>(probabilities.data()), width * sizeof(float));
    }
    for (const std::vector<std::string>& texts : gather_texts(ranks, rows)) {
      if (!ranks.leads()) break;
      for (const std::string& row : texts) {
        int64_t number = 0;
        std::vector<float> probabilities(width);
        std::memcpy(&number, row.data(), sizeof number);
        std::memcpy(probabilities.data(), row.data() + sizeof number, width * sizeof(float));
        all.emplace(number,
                    evaluated_image(files.file(number).string(),
                                    labels[static_cast<size_t>(number)], std::move(probabilities)));
      }
    }
  }
  std::vector<EvaluatedImage> images;
  for (auto& [number, image] : all) images.push_back(std::move(image));
  return images;
}

// Rank 0 reads standard input for all.
std::vector<std::string> inputs_of(const EvaluateArguments& arguments, RankGroup& ranks) {
  if (std::ranges::count(arguments.inputs, "-") == 0) return arguments.inputs;
  if (ranks.leads()) return gather_texts(ranks, expand_stdin(arguments.inputs, arguments.null))[0];
  return gather_texts(ranks, {})[0];
}

int evaluate_images(const Network& network, const EvaluateArguments& arguments,
                    const std::optional<PastRun>& run, EvaluatedFiles& reports, RankGroup& ranks,
                    int verbosity) {
  const ImageFolder files =
      arguments.split.empty()
          ? label_files(inputs_of(arguments, ranks), {.classes = network.classes(),
                                                      .label_pattern = arguments.label_pattern,
                                                      .csv = arguments.csv})
          : images_of_split(network, *run, part_of(arguments));
  require_same_images(ranks, files, prefixes_of(arguments.inputs, arguments.csv));
  reports.add_inputs(files, !arguments.split.empty());
  std::optional<int64_t> trained;
  if (arguments.split.empty() && ranks.leads()) trained = warn_of_trained(files, run, verbosity);
  Unreadable unreadable;
  for (const SkippedFile& file : files.unreadable) {
    if (ranks.leads()) unreadable.add(file.path, file.reason);
  }
  for (const std::string& note : files.notes) {
    if (verbosity >= 0) tell(printable(note) + "\n");
  }
  if (const std::string use = files.use(); !use.empty() && verbosity >= 0 && ranks.leads()) {
    tell(use + "\n");
  }
  if (network.preprocess().rules.png_bits == 16 && verbosity >= 0) {
    const PngBits depth = find_png_bits(files, arguments.workers);
    if (depth.bits <= 12) tell(dark_pngs_note(depth.read) + "\n");
  }
  if (files.size() == 0) {
    fail(ErrorKind::data, "evaluate: no images found in the given files and folders");
  }
  const auto dataset = std::make_shared<ImageDataset>(
      files, ImageDatasetOptions{.preprocess = network.preprocess()});
  const Device device = network.arena().device();
  const auto loader =
      make_loader(dataset, std::make_shared<OwnBatches>(files.size(), arguments.batch_size, ranks),
                  {.batch_size = arguments.batch_size,
                   .workers = arguments.workers,
                   .on_bad = OnBad::skip,
                   .max_bad = 1},
                  {.device = device, .dtype = network.arena().compute_dtype()});
  const Objective objective(network.model(), {}, files.counts(), device);
  const size_t width = network.classes().size();
  std::vector<OwnImage> own;
  const bool each = !arguments.predictions.empty() || !arguments.out.empty();
  const OutputObserver observe = [&](const Tensor& outputs, const Batch& batch) {
    auto rest = outputs.data<const float>();
    for (const int64_t number : batch.indices) {
      const auto row = rest.first(width);
      network.check_outputs(row, files.file(number).string());
      if (each) own.push_back({.number = number, .probabilities = {row.begin(), row.end()}});
      rest = rest.subspan(width);
    }
  };
  const auto metrics = evaluate(network, objective, *loader, nullptr, observe);
  add_other_ranks(*metrics, ranks);
  for (const auto& [index, reason] : bad_files(*loader, ranks)) {
    if (ranks.leads()) unreadable.add(files.file(index).string(), reason);
  }
  if (metrics->count() == 0) fail(ErrorKind::data, "evaluate: no image could be read");
  std::vector<EvaluatedImage> images;
  if (each) images = images_of_all_ranks(std::move(own), files, width, ranks);
  if (!ranks.leads()) return 0;
  // Whatever cannot be written, the metrics are printed; whatever cannot be printed, files are.
  std::exception_ptr unprinted;
  int code = 0;
  try {
    code = print_metrics(network, *metrics, unreadable, arguments.json, trained);
  } catch (...) {
    unprinted = std::current_exception();
  }
  reports.write(network, std::move(images), arguments.worst, arguments.weights);
  if (unprinted) std::rethrow_exception(unprinted);
  return code;
}

// What evaluate_sequences() reads.
std::vector<std::string> sequence_files(const EvaluateArguments& arguments,
                                        const std::optional<PastRun>& run) {
  if (!arguments.inputs.empty()) return arguments.inputs;
  std::vector<std::string> paths = {run->config.data.train};
  if (!run->config.data.val.empty()) paths.push_back(run->config.data.val);
  return paths;
}

std::optional<Header> header_of(const EvaluateArguments& arguments) {
  if (arguments.header.empty()) return std::nullopt;
  return arguments.header == "auto"   ? Header::automatic
         : arguments.header == "true" ? Header::present
                                      : Header::absent;
}

int evaluate_sequences(const Network& network, const EvaluateArguments& arguments,
                       const std::optional<PastRun>& run, RankGroup& ranks, int verbosity) {
  if (!arguments.predictions.empty() || !arguments.out.empty()) {
    fail(ErrorKind::usage,
         "evaluate: --predictions and --worst are about images, got a network trained on {}.",
         network.signature().examples());
  }
  const bool split = !arguments.split.empty();
  if (!split && (arguments.inputs.size() != 1 || !arguments.csv.empty() ||
                 !arguments.label_pattern.empty())) {
    fail(ErrorKind::usage,
         "evaluate: a network trained on {} expects one file or folder laid out as its training "
         "data, and neither --csv nor --label-pattern.",
         network.signature().examples());
  }
  require_same_files(ranks, sequence_files(arguments, run), "DATA");
  const Partition part{.rank = ranks.rank(), .world = ranks.world()};
  const LabelledSequences data =
      split ? sequences_of_split(network, *run, part_of(arguments), arguments.batch_size, part)
            : open_labelled(network, arguments.inputs.front(),
                            {.label_column = arguments.label_column,
                             .text_column = arguments.text_column,
                             .header = header_of(arguments)},
                            arguments.batch_size, part);
  if (!data.use.empty() && ranks.leads() && verbosity >= 0) tell(data.use + "\n");
  for (const std::string& note : data.notes) {
    if (ranks.leads() && verbosity >= 0) tell(printable(note) + "\n");
  }
  Unreadable unreadable;
  for (const BadRow& row : data.bad) {
    if (ranks.leads()) unreadable.add(row.place, row.reason);
  }
  const std::vector<int64_t> counts(network.classes().size(), 1);  // of no weight here
  const Objective objective(network.model(), network.signature(), {}, counts,
                            network.arena().device());
  // A language model's states go from batch to batch: its ranks divide each batch's rows.
  const bool rows = network.signature().task() == Task::language_model;
  OwnBatchSource own(*data.source, ranks);
  const OutputObserver observe = [&](const Tensor& outputs, const Batch&) {
    network.check_outputs(outputs.data<const float>(),
                          split ? "the run's data" : arguments.inputs.front());
  };
  const auto metrics = evaluate(network, objective, rows ? *data.source : own, nullptr, observe);
  add_other_ranks(*metrics, ranks);
  if (!ranks.leads()) return 0;
  return print_metrics(network, *metrics, unreadable, arguments.json);
}

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

int evaluate_as_rank(const EvaluateArguments& arguments, RankGroup& ranks, Invocation& invocation) {
  require_same_command(ranks, *invocation.command);
  if ((arguments.worst > 0) != !arguments.out.empty()) {
    fail(ErrorKind::usage, "evaluate: --worst N goes with --out FILE.html.");
  }
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
                         ranks.leads() ? arguments.out : "");
  const Device device = chosen_device(device_of_rank(arguments.device, ranks), invocation);
  load_algorithms(device);
  GivenFacts facts = arguments.facts.read();
  facts.positive_class = arguments.positive_class;
  StoredPrecision computes;
  if (arguments.precision) {
    computes.dtype = compute_dtype(*arguments.precision, device);
  } else {
    computes =
        stored_precision(open_weights(weights_file(arguments.weights), facts.weights_key), device);
  }
  Network network = Network::load(weights_file(arguments.weights), device, facts, computes.dtype);
  require_same_weights(ranks, arguments.weights, network.signature());
  network.fix_weights();
  tell_notes(network.notes(), invocation);
  if (!computes.note.empty()) tell_notes({computes.note}, invocation);
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
      images ? evaluate_images(network, arguments, run, reports, ranks, invocation.verbosity)
             : evaluate_sequences(network, arguments, run, ranks, invocation.verbosity);
  if (ranks.leads()) save_algorithms(device);
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
                       "Images and labels from a CSV (columns path, label; paths relative to "
                       "the one folder given, or to the CSV's own)")
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
                   "Write a CSV of every image: label, prediction, loss, probabilities")
      ->check(check_output_name);
  evaluate
      ->add_option("--worst", arguments->worst,
                   "Write a page of so many images of the largest loss, and the most confused")
      ->check(CLI::Range(1, 10'000));
  evaluate->add_option("--out", arguments->out, "The page of --worst: one HTML file")
      ->check(check_output_name);
  add_force(evaluate, arguments->force);
  evaluate->add_flag("--json", arguments->json, "Machine-readable result");
  evaluate->add_option("--device", arguments->device, std::string(device_names))
      ->capture_default_str();
  evaluate->add_option("--gpus", arguments->gpus,
                       "Use so many GPUs of this machine, or all: one process each");
  evaluate->add_option("--batch-size", arguments->batch_size, "Examples at a time, on each device")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  evaluate->add_option("--workers", arguments->workers, "Decoding threads (one per core)")
      ->check(CLI::Range(0, 1024));
  add_precision(evaluate, arguments->precision);
  arguments->facts.add_to(evaluate);
  set_action(evaluate, invocation,
             [&invocation, arguments] { return run_evaluate(*arguments, invocation); });
}

}  // namespace whisker
