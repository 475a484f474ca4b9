#include "train/data/validation_overlap.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/images/shared_images.h"
#include "data/images/split_list.h"
#include "train/data/copies.h"
#include "train/data/run_split.h"

#include <filesystem>
#include <optional>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

// The images that trained a run.
ImageFolder trained_images(const PastRun& run) {
  ImageFolder images;
  images.root = run.config.data.train;
  for (SplitEntry& entry : read_split(run.split())) {
    if (entry.split == "train") {
      images.files.push_back({.path = std::move(entry.path), .bytes = entry.bytes});
    }
  }
  return images;
}

// The overlap with what trained the weights `from`, then with what trained those that they began
// with.
std::string initial_overlap(const std::string& from, ImageFolder& val) {
  constexpr int most_runs = 8;
  std::string weights = from;
  for (int i = 0; i < most_runs && !weights.empty(); ++i) {
    std::optional<PastRun> run;
    SharedImages shared;
    try {
      run = run_of(weights);
      std::error_code error;
      if (!run || !fs::exists(run->split(), error)) return "";
      ImageFolder trained = trained_images(*run);
      shared = find_shared(val, trained);
    } catch (const Error&) {
      return "";  // a run folder that is damaged; its weights have been read
    }
    if (shared.count + shared.unread > 0) {
      return fmt::format(
          "warning: {} of the {} trained {} ({}){}: validation is too good. Give "
          "data.val other images.",
          shared.count, counted(val.size(), "validation image"),
          i == 0 ? "the weights of init.from"
                 : fmt::format("{}, with which those of init.from began",
                               printable(fs::path(weights).string())),
          printable(run->split().string()), unread_text(shared.unread));
    }
    weights = run->config.init.from;
  }
  return "";
}

}  // namespace

std::vector<std::string> validation_overlap(const Config& config, ImageFolders& images) {
  std::vector<std::string> notes;
  const auto add = [&](std::string note) {
    if (!note.empty()) notes.push_back(std::move(note));
  };
  if (config.train.overfit_batches > 0) {
    add(fmt::format("train.overfit_batches={}: the same few training examples train and validate{}",
                    config.train.overfit_batches,
                    config.data.val.empty() ? "" : "; data.val is not used"));
  }
  if (config.data.kind != DataKind::images) return notes;
  const auto add_shared = [&](ImageFolder& some, const MeasuredPart& part, ImageFolder& others,
                              std::string_view other_kind) {
    add(shared_note(find_shared(some, others), some.size(), part, other_kind));
  };
  add_shared(images.test, test_part("images"), images.train, "training");
  if (config.train.overfit_batches > 0) return notes;
  add_shared(images.test, test_part("images"), images.val, "validation");
  std::error_code error;
  const bool one = config.data.val.empty() ||  // identical images stay on one side of a split
                   fs::equivalent(config.data.train, config.data.val, error);
  if (!one) add_shared(images.val, validation_part("images"), images.train, "training");
  if (!config.data.val.empty()) {  // those of a split are known
    add(contradiction_note(
        find_contradictions(images.train), images.train.size(), "images",
        [&](int64_t i) { return images.train.files[static_cast<size_t>(i)].path; }));
  }
  if (!config.init.from.empty()) add(initial_overlap(config.init.from, images.val));
  return notes;
}

}  // namespace whisker
