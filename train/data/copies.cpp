#include "train/data/copies.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "train/data/run_data.h"
#include "train/data/sequence_sets.h"

#include <set>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

std::string singular(std::string_view examples) {
  return std::string(examples.substr(0, examples.size() - 1));
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
  const std::set<uint64_t> known(others.begin(), others.end());
  SharedImages shared;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (contents[i] == 0 || !known.contains(contents[i])) continue;
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
  return fmt::format(
      "warning: {}, such as {} and {}{}: at most one of the labels is right. Remove or correct "
      "them{}.",
      counts, printable(place(found.first)), printable(place(found.second)),
      unread_text(found.unread), examples == "images" ? " (whisker data check lists them)" : "");
}

TrainedContents trained_contents(const PastRun& run, const std::filesystem::path& given) {
  Config config = run.config;
  config.train.batch_size = 1;  // as any, auto included
  std::error_code error;
  const bool there = std::filesystem::exists(config.data.train, error);
  if (!there) config.data.train = given.string();
  try {
    RunData data = open_data(config);
    if (data.fingerprint == state_of(run).at("data_fingerprint").as_string()) {
      return {.contents = std::move(data.train_contents)};
    }
  } catch (const Error&) {  // the weights stand without the data
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
