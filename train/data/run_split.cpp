#include "train/data/run_split.h"

#include "core/error.h"
#include "core/io/text.h"
#include "data/images/split_list.h"
#include "train/data/run_data.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

// The key that names the data of `part`.
std::string DataConfig::*key_of(const Config& config, const RunPart& part) {
  const bool own = part.split == "train" || config.data.val.empty();
  return own || config.train.overfit_batches > 0 ? &DataConfig::train : &DataConfig::val;
}

}  // namespace

std::optional<PastRun> run_of(const fs::path& weights) {
  const fs::path folder = weights.parent_path();
  const fs::path config = folder / "config.yaml";
  std::error_code error;
  if (!fs::exists(config, error) || !fs::exists(folder / "last", error)) return std::nullopt;
  return PastRun{.folder = folder, .config = read_run_config(config.string())};
}

ImageFolder images_of_split(const Network& network, const PastRun& run, const RunPart& part) {
  const std::string list = printable(run.split().string());
  std::error_code error;
  if (!fs::exists(run.split(), error)) {
    fail(ErrorKind::checkpoint,
         "evaluate --split: no {}: the run is older than this option. Name a folder of data "
         "instead.",
         list);
  }
  ImageFolder images;
  images.root = part.where.empty() ? run.config.data.*key_of(run.config, part) : part.where;
  images.classes = network.classes();
  int64_t there = 0;
  for (SplitEntry& entry : read_split(run.split())) {
    if (entry.split != part.split) continue;
    const auto label = std::ranges::find(images.classes, entry.label);
    if (label == images.classes.end()) {
      fail(ErrorKind::checkpoint,
           "{}: '{}' is not a class of the weights next to it, which have {}", list,
           printable(entry.label), quoted_list(images.classes));
    }
    there += fs::exists(images.root / entry.path, error) ? 1 : 0;
    images.files.push_back({.path = std::move(entry.path),
                            .label = label - images.classes.begin(),
                            .bytes = entry.bytes});
  }
  if (there > 0) return images;
  fail(
      ErrorKind::data,
      "evaluate --split {}: none of the {} images of {} is in {}. Give their present folder as the "
      "argument after WEIGHTS.",
      part.split, images.size(), list, printable(images.root.string()));
}

LabelledSequences sequences_of_split(const Network& network, const PastRun& run,
                                     const RunPart& part, int64_t batch_size, Partition rank,
                                     KeepExamples keep) {
  Config config = run.config;
  if (!part.where.empty()) config.data.*key_of(config, part) = part.where;
  config.train.batch_size = batch_size;
  config.train.drop_last = false;
  config.data.sampling = SamplingKind::sequential;
  const bool language = config.data.kind == DataKind::language;
  RunData data = open_data(config, language ? rank : Partition(), keep);
  if (!data.signature.has_input(network.signature().input_json()) ||
      data.signature.classes != network.classes()) {
    fail(ErrorKind::data,
         "evaluate --split: {} changed since the weights were trained: other classes, vocabulary "
         "or scaling. Restore the old data, or name other data without --split.",
         printable(config.data.train));
  }
  const bool train = part.split == "train";
  return {.source = std::move(train ? data.train : data.val),
          .bad = {},
          .notes = std::move(data.notes),
          .examples = std::move(train ? data.train_examples : data.val_examples)};
}

}  // namespace whisker
