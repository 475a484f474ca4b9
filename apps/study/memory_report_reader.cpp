// MemoryReport::json() read again, as `study record` keeps it beside a step: every number is
// checked, so that sums stay within 63 bits.
#include "apps/study/memory_report.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/trace/recording_file.h"

namespace whisker {
namespace {

constexpr size_t most_samples = size_t{1} << 18;
constexpr int64_t most_bytes = int64_t{1} << 44;

MemorySample read_sample(const JsonValue& json) {
  const auto bytes = [&](std::string_view key) { return json.at(key).as_int(0, most_bytes); };
  MemorySample sample{.name = printable(json.at("operator").as_string()),
                      .layer = printable(json.at("layer").as_string()),
                      .backward = json.at("backward").as_bool(),
                      .keeps = bytes("keeps_bytes"),
                      .recomputable = bytes("recomputable_bytes"),
                      .kept = bytes("kept_bytes"),
                      .peak = bytes("peak_bytes"),
                      .peak_tensors = bytes("peak_tensor_bytes")};
  sample.after.allocated = bytes("live_bytes");
  for (int i = 0; i < memory_category_count; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    sample.after.by_category[static_cast<size_t>(i)] =
        bytes(fmt::format("{}_bytes", name_of(category)));
  }
  return sample;
}

}  // namespace

std::optional<MemoryReport> MemoryReport::find(const SafetensorsFile& file) {
  check_is_recording(file);
  const auto found = file.metadata().find(metadata_key);
  if (found == file.metadata().end()) return {};
  const JsonValue json = JsonValue::parse(
      found->second,
      {.name = file.name(), .max_values = 20 * most_samples, .kind = ErrorKind::checkpoint});
  MemoryReport report{.title = printable(json.at("network").as_string()), .samples = {}};
  report.first_peak = json.at("first_peak_bytes").as_int(0, most_bytes);
  const JsonValue& predicted = json.at("predicted_bytes");
  report.predicted = predicted.is_null() ? 0 : predicted.as_int(0, most_bytes);
  for (const JsonValue& one : json.at("steps").items()) report.samples.push_back(read_sample(one));
  if (report.samples.empty() || report.samples.size() > most_samples) {
    fail(ErrorKind::checkpoint, "{}: {}: expected 1 to {} steps, got {}.", file.name(),
         metadata_key, most_samples, report.samples.size());
  }
  return report;
}

}  // namespace whisker
