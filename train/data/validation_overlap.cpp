#include "train/data/validation_overlap.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/images/shared_images.h"
#include "data/images/split_list.h"
#include "train/data/run_split.h"

#include <filesystem>
#include <optional>
#include <system_error>

namespace whisker {
namespace {

namespace fs = std::filesystem;

std::string unread_text(const SharedImages& shared) {
  if (shared.unread == 0) return "";
  return fmt::format(" ({} more could not be compared in a few seconds: whisker data check)",
                     shared.unread);
}

std::string shared_note(const ImageFolder& images, std::string_view kind, const ImageFolder& others,
                        std::string_view other_kind) {
  const SharedImages shared = find_shared(images, others);
  if (shared.count + shared.unread == 0) return "";
  const std::string_view key = kind == "test" ? "data.test" : "data.val";
  return fmt::format(
      "{}{} of the {} {} {} images, too{}{}: they do not measure what other images would. Remove "
      "them from {}{}.",
      shared.count > 0 ? "warning: " : "", shared.count,
      counted(images.size(), fmt::format("{} image", kind)),
      shared.count == 1 ? "is one of the" : "are", other_kind,
      shared.count > 0 ? fmt::format(", such as {}", printable(shared.example)) : std::string(),
      unread_text(shared), key,
      kind == "test" ? "" : ", or leave data.val out to split data.train");
}

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

// Of the weights `from`, then of those that they began with.
std::string initial_overlap(const std::string& from, const ImageFolder& val) {
  constexpr int most_runs = 8;
  std::string weights = from;
  for (int i = 0; i < most_runs && !weights.empty(); ++i) {
    std::optional<PastRun> run;
    SharedImages shared;
    try {
      run = run_of(weights);
      std::error_code error;
      if (!run || !fs::exists(run->split(), error)) return "";
      shared = find_shared(val, trained_images(*run));
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
          printable(run->split().string()), unread_text(shared));
    }
    weights = run->config.init.from;
  }
  return "";
}

}  // namespace

std::vector<std::string> validation_overlap(const Config& config, const ImageFolders& images) {
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
  add(shared_note(images.test, "test", images.train, "training"));
  if (config.train.overfit_batches > 0) return notes;
  add(shared_note(images.test, "test", images.val, "validation"));
  std::error_code error;
  const bool one = config.data.val.empty() ||  // identical images stay on one side of a split
                   fs::equivalent(config.data.train, config.data.val, error);
  if (!one) add(shared_note(images.val, "validation", images.train, "training"));
  if (!config.init.from.empty()) add(initial_overlap(config.init.from, images.val));
  return notes;
}

}  // namespace whisker
