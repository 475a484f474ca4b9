#include "train/model/calibration_record.h"

#include "core/error.h"
#include "core/io/json.h"
#include "core/io/text.h"

#include <algorithm>
#include <limits>

namespace whisker {
namespace {

constexpr size_t most_sampled = 1024;

std::vector<uint64_t> sorted_contents(std::span<const uint64_t> contents) {
  std::vector<uint64_t> sorted(contents.begin(), contents.end());
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  if (!sorted.empty() && sorted.front() == 0) sorted.erase(sorted.begin());
  return sorted;
}

}  // namespace

std::vector<uint64_t> content_sample(std::span<const uint64_t> contents) {
  std::vector<uint64_t> sample = sorted_contents(contents);
  sample.resize(std::min(sample.size(), most_sampled));
  return sample;
}

std::string CalibrationRecord::json() const {
  JsonWriter json;
  json.begin_object().field("temperature", temperature).list("data", data);
  json.field("examples", examples);
  json.list("contents", contents);
  return json.end_object().str();
}

CalibrationRecord CalibrationRecord::from_json(const std::string& text, const std::string& file) {
  const JsonValue json =
      JsonValue::parse(text, {.name = file + ": calibration", .kind = ErrorKind::checkpoint});
  CalibrationRecord record{
      .temperature = json.at("temperature").as_double(least_temperature, most_temperature),
      .data = json.at("data").as_strings(),
      .examples = json.at("examples").as_int(1)};
  for (const JsonValue& one : json.at("contents").items()) record.contents.push_back(one.as_uint());
  record.contents = content_sample(record.contents);
  return record;
}

std::string CalibrationRecord::text() const {
  return fmt::format("{:.4f}, fitted to {} examples of {}", temperature, grouped(examples),
                     printable(fmt::format("{}", fmt::join(data, ", "))));
}

double CalibrationRecord::fraction_fitted(std::span<const uint64_t> of) const {
  if (contents.empty()) return 0;
  const bool all = contents.size() < most_sampled;
  const uint64_t last = all ? std::numeric_limits<uint64_t>::max() : contents.back();
  int64_t compared = 0, shared = 0;
  for (const uint64_t content : sorted_contents(of)) {
    if (content > last) break;
    ++compared;
    shared += std::ranges::binary_search(contents, content);
  }
  return compared > 0 ? static_cast<double>(shared) / static_cast<double>(compared) : 0;
}

}  // namespace whisker
