#include "train/data/copies.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/files/file_walk.h"
#include "train/data/run_data.h"
#include "train/data/sequence_sets.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

std::string singular(std::string_view examples) {
  return std::string(examples.substr(0, examples.size() - 1));
}

// The size of a file or folder; none of a pipe, which is read once.
std::optional<uint64_t> bytes_of(const std::filesystem::path& data, std::string_view what) {
  if (std::filesystem::is_regular_file(data)) return std::filesystem::file_size(data);
  if (!std::filesystem::is_directory(data)) return std::nullopt;
  uint64_t bytes = 0;
  for (const WalkedFile& file : walk_files(data, what).files) bytes += file.bytes;
  return bytes;
}

// Headings and licences are in many texts: lines are only spoken of from a tenth of them on.
bool may_be_chance(int64_t count, int64_t size, std::string_view examples) {
  return examples == lines_name && 10 * count < size;
}

std::string_view compared_text(std::string_view examples) {
  static_assert(least_line_bytes == 80);
  return examples == lines_name ? " of 80 bytes and more" : "";
}

}  // namespace

std::string unread_text(int64_t unread) {
  if (unread == 0) return "";
  return fmt::format(" ({} more could not be compared in a few seconds: whisker data check)",
                     unread);
}

SharedImages find_shared(std::span<const uint64_t> contents, std::span<const uint64_t> others,
                         const PlaceOf& place) {
  std::vector<uint64_t> known(others.begin(), others.end());
  std::ranges::sort(known);
  SharedImages shared;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i] == 0 || !std::ranges::binary_search(known, contents[i])) continue;
    if (shared.count++ == 0 && place) shared.example = place(static_cast<int64_t>(i));
  }
  return shared;
}

std::string shared_note(const SharedImages& shared, int64_t size, const MeasuredPart& part,
                        std::string_view other_kind) {
  if (shared.count + shared.unread == 0) return "";
  if (may_be_chance(shared.count, size, part.examples)) return "";
  return fmt::format(
      "{}{} of the {}{} {} {} {}, too{}{}: they do not measure what other {} would. {}",
      shared.count > 0 ? "warning: " : "", shared.count,
      counted(size, fmt::format("{} {}", part.name, singular(part.examples))),
      compared_text(part.examples), shared.count == 1 ? "is one of the" : "are", other_kind,
      part.examples,
      shared.example.empty() ? "" : fmt::format(", such as {}", printable(shared.example)),
      unread_text(shared.unread), part.examples, part.remedy);
}

std::string contradiction_note(const ContradictingImages& found, int64_t size,
                               std::string_view examples, const PlaceOf& place) {
  if (found.count + found.unread == 0) return "";
  const std::string counts =
      fmt::format("{} of the {} of data.train are copies with different labels", found.count,
                  counted(size, singular(examples)));
  if (found.count == 0) return counts + unread_text(found.unread);
  const std::string text =
      fmt::format("{}, such as {} and {}{}", counts, printable(place(found.first)),
                  printable(place(found.second)), unread_text(found.unread));
  if (examples == "images") {
    return fmt::format(
        "warning: {}: at most one of the labels is right. Remove or correct them (whisker data "
        "check lists them).",
        text);
  }
  // A surname is one of two languages, and passengers of one class and age had two fates.
  return text + ": a network gives copies one answer. Correct those that are wrong.";
}

TrainedContents trained_contents(const PastRun& run, const std::filesystem::path& given) {
  Config config = run.config;
  config.train.batch_size = 1;  // as any, auto included
  std::error_code error;
  const bool there = std::filesystem::exists(config.data.train, error);
  if (!there) config.data.train = given.string();
  try {
    constexpr uint64_t mebibyte = 1 << 20, most_bytes = 64 * mebibyte;
    const std::optional<uint64_t> train = bytes_of(config.data.train, "data.train");
    const std::optional<uint64_t> val =
        config.data.val.empty() ? 0 : bytes_of(config.data.val, "data.val");
    if (!train || !val) return {};
    if (*train + *val > most_bytes) {
      return {.note = fmt::format("not compared with the training data, which are {} MiB",
                                  (*train + *val) / mebibyte)};
    }
    RunData data = open_data(config);
    if (data.fingerprint == state_of(run).at("data_fingerprint").as_string()) {
      std::erase(data.train_contents, 0);
      return {.contents = std::move(data.train_contents)};
    }
  } catch (const Error&) {  // the weights stand without the data
  } catch (const std::filesystem::filesystem_error&) {
  }
  if (!there) return {};
  return {.note = fmt::format("{} changed since it trained the weights: which of its examples did "
                              "is not known",
                              printable(config.data.train))};
}

std::string trained_note(int64_t trained, int64_t size, std::string_view examples,
                         const std::filesystem::path& list) {
  if (trained == 0 || may_be_chance(trained, size, examples)) return "";
  return fmt::format(
      "warning: {} trained the weights ({}): the metrics do not apply to other {}. Use --split val "
      "for the run's validation split.",
      size == 1
          ? fmt::format("this {}{}", singular(examples), compared_text(examples))
          : fmt::format("{} of these {} {}{}", trained, size, examples, compared_text(examples)),
      printable(list.string()), examples);
}

std::string_view content_name(const Signature& signature) {
  return signature.task() == Task::language_model ? lines_name : signature.examples();
}

}  // namespace whisker
