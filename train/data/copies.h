// What is said of examples that are there more than once: under two labels, or in the training data
// and in the data that measure. Examples are the same where the hashes of their contents are.
#pragma once

#include "data/images/shared_images.h"
#include "train/data/run_split.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The examples of a language model: lines of least_line_bytes, spoken of from a tenth of them on.
inline constexpr std::string_view lines_name = "lines";

/// Where the example of an index stands: "a.csv:7".
using PlaceOf = std::function<std::string(int64_t)>;

/// What examples measure: "validation" or "test".
struct MeasuredPart {
  std::string_view name;
  std::string_view examples;  ///< "images"
  std::string_view remedy;    ///< a sentence
};
inline MeasuredPart test_part(std::string_view examples) {
  return {"test", examples, "Remove them from data.test."};
}
/// The part that data.val is, or data.val_split.
inline MeasuredPart validation_part(std::string_view examples, bool split = false) {
  return {"validation", examples,
          split ? "Keep one of each in data.train, or name data.val."
                : "Remove them from data.val, or leave data.val out to split data.train."};
}

/// " (9 more could not be compared in a few seconds: ...)"; "" for none.
std::string unread_text(int64_t unread);

/// Those of `contents` that `others` have, too, apart from 0, which is not compared; without
/// `place` there is no example.
SharedImages find_shared(std::span<const uint64_t> contents, std::span<const uint64_t> others,
                         const PlaceOf& place = {});
/// A warning that `shared` of the `size` examples of `part` are `other_kind` ("training") examples,
/// too; "" where none is.
std::string shared_note(const SharedImages& shared, int64_t size, const MeasuredPart& part,
                        std::string_view other_kind);

/// That copies in data.train have different labels, of images a warning; "" where none has.
/// `place`: of the numbers in `found`.
std::string contradiction_note(const ContradictingImages& found, int64_t size,
                               std::string_view examples, const PlaceOf& place);

/// Contents of the examples that trained a run, read again; where its data are not there, as from
/// another working folder, `given` may be them. Pipes and more than 64 MiB are not read again.
struct TrainedContents {
  std::vector<uint64_t> contents = {};  ///< empty where the data are gone, others or not compared
  std::string note = {};                ///< that they are others, or too many to compare
};
TrainedContents trained_contents(const PastRun& run, const std::filesystem::path& given);
/// A warning that `trained` of the `size` examples to evaluate trained the weights, as `list` says.
std::string trained_note(int64_t trained, int64_t size, std::string_view examples,
                         const std::filesystem::path& list);

/// What RunData::train_contents are of: "texts", and of language models lines_name.
std::string_view content_name(const Signature& signature);

}  // namespace whisker
