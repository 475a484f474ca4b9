#include "apps/commands/evaluate_data.h"
#include "apps/commands/metrics_report.h"
#include "apps/ranks/own_batches.h"
#include "apps/ranks/rank_rounds.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/images/image_dataset.h"
#include "data/images/labelled_files.h"
#include "data/images/png_bits.h"
#include "data/images/split_list.h"
#include "data/loader/device_loader.h"
#include "train/data/copies.h"
#include "train/data/run_data.h"
#include "train/experiment.h"
#include "train/loop/rank_sums.h"
#include "train/metrics/evaluate.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

// Counts the images that trained the weights, if the run folder lists them, and warns.
std::optional<int64_t> warn_of_trained(const ImageFolder& images, const std::optional<PastRun>& run,
                                       int verbosity) {
  std::error_code error;
  if (!run || !std::filesystem::exists(run->split(), error)) return std::nullopt;
  int64_t trained = 0;
  try {
    trained = count_trained(read_split(run->split()), run->config.data.train, images);
  } catch (const Error& damaged) {  // needed for a warning only
    tell(fmt::format("whisker: warning: {}\n", damaged.what()));
    return std::nullopt;
  }
  if (trained > 0 && verbosity >= 0) {
    tell(
        fmt::format("whisker: {}\n", trained_note(trained, images.size(), "images", run->split())));
  }
  return trained;
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

// Files of 16 bits with more bits than the weights read are refused, unless the weights were
// validated on them; those with fewer are said.
void say_depth(const Network& network, const ImageFolder& files, const EvaluateArguments& arguments,
               int verbosity) {
  constexpr int64_t most = 32;
  const int bits = network.preprocess().rules.png_bits;
  const PngBits depth = find_png_bits(files, arguments.workers, most, bits);
  const std::string clipped = clipped_note(depth.largest, bits);
  if (!clipped.empty() && arguments.split.empty()) {
    fail(ErrorKind::data, "evaluate: the largest sample in {} of {} of 16 bits {}.", depth.read,
         counted(depth.files, "file"), clipped);
  }
  const std::string dark = depth.dark_note(bits);
  if (!dark.empty() && verbosity >= 0) tell(dark + "\n");
}

// Hashes of the images; 0 of those that cannot be read in a minute.
std::vector<uint64_t> contents_of(const ImageDataset& images, int workers) {
  constexpr double seconds = 60;
  images.stamps().read_rest(workers, seconds);
  std::vector<uint64_t> contents;
  for (const FileStamp& stamp : images.stamps().get()) contents.push_back(stamp.content);
  return contents;
}

// Rank 0 reads standard input for all.
std::vector<std::string> inputs_of(const EvaluateArguments& arguments, RankGroup& ranks) {
  if (std::ranges::count(arguments.inputs, "-") == 0) return arguments.inputs;
  if (ranks.leads()) return gather_texts(ranks, expand_stdin(arguments.inputs, arguments.null))[0];
  return gather_texts(ranks, {})[0];
}

}  // namespace

int evaluate_images(const Network& network, const EvaluateArguments& arguments,
                    const std::optional<PastRun>& run, const EvaluateOutputs& outputs,
                    RankGroup& ranks, int verbosity) {
  std::vector<std::string> inputs = inputs_of(arguments, ranks);
  const ImageFolder files = arguments.split.empty()
                                ? label_files(inputs, {.classes = network.classes(),
                                                       .label_pattern = arguments.label_pattern,
                                                       .csv = arguments.csv})
                                : images_of_split(network, *run, arguments.run_part());
  if (!arguments.split.empty()) inputs.push_back(files.root.string());
  require_same_images(ranks, files, prefixes_of(arguments.inputs, arguments.csv));
  if (outputs.reports.any()) {
    for (const std::string& input : inputs) outputs.reports.add_input(input);
    for (int64_t i = 0; i < files.size(); ++i) outputs.reports.add_input(files.file(i));
  }
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
  if (!arguments.facts.gives("png_bits")) say_depth(network, files, arguments, verbosity);
  if (files.size() == 0) {
    fail(ErrorKind::data, "evaluate: no images found in the given files and folders");
  }
  if (arguments.split.empty() && verbosity >= 0 && ranks.leads()) {
    const std::string missing =
        missing_classes(files.labels(), network.classes(), "images", "DATA", "evaluation");
    if (!missing.empty()) tell(missing + "\n");
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
  ExampleCollector measured(network.signature(), files.size(), arguments.scores());
  const OutputObserver observe = [&](const Tensor& scores, const Batch& batch) {
    auto rest = scores.data<const float>();
    for (const int64_t number : batch.indices) {
      const auto row = rest.first(width);
      network.check_outputs(row, files.file(number).string());
      rest = rest.subspan(width);
    }
    measured.add(scores, batch);
  };
  EvaluateOptions options{.observe = observe, .mirror = arguments.mirror};
  outputs.calibrated.observe(options);
  const auto metrics = evaluate(network, objective, *loader, options);
  add_other_ranks(*metrics, ranks);
  const std::map<int64_t, std::string> bad = bad_files(*loader, ranks);
  for (const auto& [index, reason] : bad) {
    if (ranks.leads()) unreadable.add(files.file(index).string(), reason);
  }
  if (metrics->count() == 0) fail(ErrorKind::data, "evaluate: no image could be read");
  ValidationExamples examples = measured.of_all_ranks(ranks);
  const std::optional<TemperatureFit> fit = outputs.calibrated.fit(ranks);
  if (!ranks.leads()) return 0;
  std::vector<std::string> paths;
  for (int64_t i = 0; arguments.each() && i < files.size(); ++i) {
    if (!bad.contains(i)) paths.push_back(files.file(i).string());
  }
  const auto& calibration = network.signature().calibration;
  std::vector<uint64_t> contents;
  if (fit || calibration) contents = contents_of(*dataset, arguments.workers);
  const int code = outputs.reports.write(network, arguments,
                                         {.metrics = *metrics,
                                          .unreadable = unreadable,
                                          .examples = examples,
                                          .trained_on = trained,
                                          .fit = fit,
                                          .contents = contents,
                                          .paths = std::move(paths)});
  outputs.calibrated.write(metrics->count(), contents);
  return code;
}

}  // namespace whisker
