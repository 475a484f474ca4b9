#include "train/data/run_split.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "data/class_names.h"
#include "data/files/file_walk.h"
#include "data/files/label_table.h"
#include "data/images/file_stamps.h"
#include "data/images/split_list.h"
#include "data/loader/loader.h"
#include "train/data/copies.h"
#include "train/data/run_data.h"

#include <algorithm>
#include <cstring>
#include <map>
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

// The hash of the part's examples in the fingerprint of both.
std::string_view hash_of_part(std::string_view fingerprint, const RunPart& part) {
  const size_t middle = fingerprint.find('-');
  return part.split == "train" ? fingerprint.substr(0, middle) : fingerprint.substr(middle + 1);
}

// What the run read of the images of `split`, in the order of their paths; of older runs nothing.
std::vector<FileStamp> stamps_of(const SafetensorsFile& file, std::string_view split) {
  const SafetensorsTensor* const stored = file.find(fmt::format("data.{}", split));
  if (!stored) return {};
  std::vector<FileStamp> stamps(stored->bytes.size() / sizeof(FileStamp));
  std::memcpy(stamps.data(), stored->bytes.data(), stamps.size() * sizeof(FileStamp));
  return stamps;
}

// What data.csv says now, by path; of paths that it writes as the list does.
std::map<std::string, std::string> labels_now(const PastRun& run, const RunPart& part) {
  const DataConfig& data = run.config.data;
  std::error_code error;
  std::map<std::string, std::string> labels;
  const bool listed = key_of(run.config, part) == &DataConfig::train;
  if (data.csv.empty() || !listed || !fs::exists(data.csv, error)) return labels;
  const LabelTable table = read_label_table(data.csv, static_cast<int>(data.rules));
  for (const CsvRow& row : table.rows) {
    labels.emplace(csv_text(row.fields[table.path]), csv_text(row.fields[table.label]));
  }
  return labels;
}

// Throws data where images changed; notes validation images that trained.
void compare_with_run(const PastRun& run, const RunPart& part, std::vector<std::string> changed,
                      ImageFolder& images) {
  const std::string optimizer = state_of(run).at("optimizer").at("name").as_string();
  const SafetensorsFile file = SafetensorsFile::open(run.folder / "last" / optimizer);
  std::vector<FileStamp> before = stamps_of(file, part.split);
  before.resize(images.files.size());
  std::vector<FileStamp> there = before;
  for (size_t i = 0; i < there.size(); ++i) {  // of what is missing, evaluation tells
    if (images.files[i].modified_ns == 0) there[i].content = 0;
  }
  for (std::string& path : FileStamps(images).changed_since(there, auto_workers)) {
    if (std::ranges::count(changed, path) == 0) changed.push_back(std::move(path));
  }
  if (!changed.empty()) {
    fail(
        ErrorKind::data,
        "evaluate --split {}: {} of the {} of {} {} another content or label than in training: {}. "
        "Restore them, or name a folder without --split.",
        part.split, changed.size(), counted(images.size(), "image"),
        printable(run.split().string()), changed.size() == 1 ? "has" : "have",
        quoted_list(changed));
  }
  if (part.split == "train") return;
  std::vector<uint64_t> own, trained;
  for (const FileStamp& stamp : before) own.push_back(stamp.content);
  for (const FileStamp& stamp : stamps_of(file, "train")) {
    if (stamp.content != 0) trained.push_back(stamp.content);
  }
  const SharedImages shared = find_shared(
      own, trained, [&](int64_t i) { return images.files[static_cast<size_t>(i)].path; });
  const bool divided = run.config.data.val.empty();
  std::string note =
      shared_note(shared, images.size(), validation_part("images", divided), "training");
  if (!note.empty()) images.notes.push_back(std::move(note));
}

}  // namespace

JsonValue state_of(const PastRun& run) {
  constexpr size_t most_bytes = 64 << 20;
  const std::string state = (run.folder / "last" / "state.json").string();
  return JsonValue::parse(read_file(state, most_bytes, ErrorKind::checkpoint),
                          {.name = state, .kind = ErrorKind::checkpoint});
}

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
  const std::map<std::string, std::string> labels = labels_now(run, part);
  std::vector<std::string> changed;
  int64_t there = 0;
  for (SplitEntry& entry : read_split(run.split())) {
    if (entry.split != part.split) continue;
    const auto label = std::ranges::find(images.classes, entry.label);
    if (label == images.classes.end()) {
      fail(ErrorKind::checkpoint,
           "{}: '{}' is not a class of the weights next to it, which have {}", list,
           printable(entry.label), quoted_list(images.classes));
    }
    const int64_t number = label - images.classes.begin();
    const std::optional<WalkedFile> now = find_file(images.root, entry.path);
    there += now ? 1 : 0;
    const auto other = labels.find(entry.path);
    if ((now && now->bytes != entry.bytes) ||
        (other != labels.end() && class_number(images.classes, other->second) != number)) {
      changed.push_back((images.root / entry.path).string());
    }
    images.files.push_back({.path = std::move(entry.path),
                            .label = number,
                            .bytes = entry.bytes,
                            .modified_ns = now ? now->modified_ns : 0,
                            .written_ns = now ? now->written_ns : 0});
  }
  if (there > 0) {
    compare_with_run(run, part, std::move(changed), images);
    return images;
  }
  fail(ErrorKind::data,
       "evaluate --split {}: {} of {} is in {}. Give their present folder as the "
       "argument after WEIGHTS.",
       part.split, none_of(images.size(), "image"), list, printable(images.root.string()));
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
  const bool same_input = data.signature.has_input(network.signature().input_json()) &&
                          data.signature.classes == network.classes();
  const std::string then = state_of(run).at("data_fingerprint").as_string();
  const bool same = config.train.overfit_batches > 0 ||  // whose examples the batch size decides
                    hash_of_part(then, part) == hash_of_part(data.fingerprint, part);
  if (!same_input || !same) {
    fail(ErrorKind::data,
         "evaluate --split {}: {} changed since the weights were trained: other {}. Restore the "
         "old data, or name other data without --split.",
         part.split, printable(same_input ? config.data.*key_of(config, part) : config.data.train),
         same_input ? "examples" : "classes, vocabulary or scaling");
  }
  const bool train = part.split == "train";
  return {.source = std::move(train ? data.train : data.val),
          .bad = {},
          .notes = std::move(data.notes),
          .examples = std::move(train ? data.train_examples : data.val_examples)};
}

}  // namespace whisker
