#include "train/loop/best_weights.h"

#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "core/io/text.h"
#include "layers/weights/weights.h"

#include <charconv>
#include <system_error>

namespace whisker {
namespace {

[[noreturn]] void refuse_best(const std::filesystem::path& best, const std::string& got) {
  fail(ErrorKind::checkpoint,
       "{}: expected the best weights of this run, got {}. Move it elsewhere, or restore the run's "
       "own file.",
       printable(best.string()), got);
}

int64_t epoch_in(const std::string& text) {
  int64_t epoch = 0;
  std::from_chars(text.data(), text.data() + text.size(), epoch);
  return epoch;
}

std::optional<double> metric_in(const std::string& metrics, std::string_view figure) {
  try {
    const JsonValue json = JsonValue::parse(metrics, {.max_values = 100'000'000});
    const JsonValue* value = json.find(figure);
    return value && value->is_number() ? std::optional(value->as_double()) : std::nullopt;
  } catch (const Error&) {  // of an older version, or none at all
    return std::nullopt;
  }
}

}  // namespace

BestWeights read_best_weights(const std::filesystem::path& best, const Network& network,
                              std::string_view figure) {
  std::error_code error;
  if (std::filesystem::is_directory(best, error)) refuse_best(best, "a folder");
  if (!std::filesystem::exists(best, error)) return {.problem = "the best weights are missing"};
  if (std::filesystem::file_size(best, error) == 0) {
    return {.problem = "the best weights are an empty file"};
  }
  std::optional<SafetensorsFile> file;
  try {
    file.emplace(SafetensorsFile::open(best));
  } catch (const Error&) {
    return {.problem = "the best weights are damaged"};
  }
  const std::string difference = difference_of_weights(*file, network.model()).first;
  if (!difference.empty()) refuse_best(best, "those of another network: " + difference);
  if (classes_of(file->metadata(), file->name()) != network.classes()) {
    refuse_best(best, "those of other classes");
  }
  const auto said = [&](const char* key) {
    const auto found = file->metadata().find(key);
    return found == file->metadata().end() ? std::string() : found->second;
  };
  const std::string record = said(calibration_key);
  return {.problem = "",
          .epoch = epoch_in(said("epoch")),
          .metric = metric_in(said("metrics"), figure),
          .temperature =
              record.empty() ? "" : CalibrationRecord::from_json(record, file->name()).text()};
}

}  // namespace whisker
