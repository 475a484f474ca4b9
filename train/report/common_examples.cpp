#include "train/report/common_examples.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/file.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"
#include "train/metrics/metrics.h"
#include "train/metrics/score_curve.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace whisker {

// Those of images are in the last checkpoint.
std::vector<int64_t> recorded_contents(const std::filesystem::path& run,
                                       const ValidationExamples& all) {
  if (!all.contents.empty() || all.of != "images") return all.contents;
  std::vector<int64_t> contents;
  try {
    const std::string text =
        read_file(run / "last/state.json", size_t{64} << 20, ErrorKind::checkpoint);
    const JsonValue state = JsonValue::parse(text, {.name = "state.json"});
    const std::filesystem::path name = state.at("optimizer").at("name").as_string();
    const SafetensorsFile file = SafetensorsFile::open(run / "last" / name.filename());
    const SafetensorsTensor* stamps = file.find("data.val");
    if (!stamps || stamps->dtype != DType::i64) return {};
    const auto count = static_cast<size_t>(all.size());
    if (stamps->shape != std::vector<uint64_t>{count, 2}) return {};
    for (size_t i = 0; i < count; ++i) {
      int64_t hash = 0;
      std::memcpy(&hash, stamps->bytes.data() + (2 * i + 1) * sizeof hash, sizeof hash);
      if (hash == 0) return {};  // of an image that the run has not read
      contents.push_back(hash);
    }
  } catch (const Error&) {  // a run without a checkpoint, or of an older version
    return {};
  }
  return contents;
}

CommonExamples match_examples(std::span<ComparedRun> runs) {
  const auto every = [&](const auto& holds) {
    return std::ranges::all_of(runs, [&](const ComparedRun& run) {
      return run.record.validation && holds(*run.record.validation);
    });
  };
  CommonExamples common;
  common.classify = every([](const ValidationExamples& all) { return !all.is_forecast(); });
  common.forecast = every([&](const ValidationExamples& all) {
    const ValidationExamples& first = *runs[0].record.validation;
    return all.is_forecast() && all.targets == first.targets && all.horizon == first.horizon;
  });
  if (!common.classify && !common.forecast) return common;
  common.by_content =
      std::ranges::all_of(runs, [](const ComparedRun& run) { return !run.contents.empty(); });
  for (ComparedRun& run : runs) {
    const ValidationExamples& all = *run.record.validation;
    std::map<std::string, int> copies;
    for (int64_t i = 0; i < all.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      std::string key = common.by_content       ? fmt::format("{}", run.contents[at])
                        : at < all.paths.size() ? all.paths[at]
                                                : std::string();
      if (key.empty()) continue;
      if (common.classify) key += "\n" + all.classes[static_cast<size_t>(all.labels[at])];
      const int copy = ++copies[key];
      run.examples.emplace(fmt::format("{}\n{}", key, copy), i);
    }
  }
  for (const auto& example : runs[0].examples) {
    const std::string& key = example.first;
    if (std::ranges::all_of(runs, [&](const auto& run) { return run.examples.contains(key); })) {
      common.keys.push_back(key);
    }
  }
  return common;
}

std::string accuracy_text(int64_t correct, int64_t count) {
  const Interval bounds = wilson_interval(correct, count);
  return fmt::format("{} ({:.1f} to {:.1f} %)",
                     percent_text(static_cast<double>(correct) / static_cast<double>(count)),
                     100 * bounds.low, 100 * bounds.high);
}

std::string common_text(const CommonExamples& common, const ComparedRun& run) {
  if (common.keys.empty()) return "–";
  const ValidationExamples& all = *run.record.validation;
  const size_t outputs = static_cast<size_t>(all.horizon) * all.targets.size();
  int64_t correct = 0;
  double error = 0;
  for (const std::string& key : common.keys) {
    const int64_t example = run.examples.at(key);
    if (common.classify) correct += all.is_correct(example);
    for (size_t j = 0; j < outputs; ++j) {
      const size_t at = static_cast<size_t>(example) * outputs + j;
      error +=
          std::abs(static_cast<double>(all.predictions[at]) - static_cast<double>(all.truths[at]));
    }
  }
  if (common.classify) return accuracy_text(correct, std::ssize(common.keys));
  return "mae " + figure_text(error / static_cast<double>(common.keys.size() * outputs));
}

std::string common_note(const CommonExamples& common) {
  const int64_t count = std::ssize(common.keys);
  if (!common.classify && !common.forecast) {
    return "Common examples are not known: not every run has a validation.safetensors of a "
           "classification, or of forecasts of the same columns and steps.";
  }
  if (common.forecast) {
    return common.by_content
               ? fmt::format(
                     "{} in all runs, by the values that they forecast and those of the "
                     "16 rows before.",
                     counted(count, "validation window is", "validation windows are"))
               : "Common windows are not known: not all runs recorded contents.";
  }
  return fmt::format(
      "{} in all runs, by their {} and label; in brackets 95 % intervals. Of intervals that "
      "overlap, the difference may be chance.",
      counted(count, "validation example is", "validation examples are"),
      common.by_content ? "content" : "path (not all runs recorded contents)");
}

}  // namespace whisker
