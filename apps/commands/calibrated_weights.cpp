#include "apps/commands/calibrated_weights.h"

#include "core/error.h"
#include "core/io/file_ending.h"
#include "core/io/safetensors_stream.h"
#include "core/io/text.h"
#include "train/model/hub_folder.h"

#include <filesystem>
#include <string_view>
#include <utility>

namespace whisker {
namespace {

namespace fs = std::filesystem;

constexpr OutputFormat calibrated_format{.name = "evaluate --calibrate"};

void check_calibrate_arguments(const EvaluateArguments& arguments) {
  const auto refuse = [](std::string_view why) { fail(ErrorKind::usage, "evaluate: {}.", why); };
  if (arguments.calibrate == arguments.calibrated.empty()) {
    refuse("--calibrate goes with -o NEW.safetensors");
  }
  if (!arguments.calibrate) return;
  if (file_ending(arguments.calibrated) != ".safetensors") {
    refuse(fmt::format("-o: expected a name that ends in .safetensors, got {}",
                       excerpt(arguments.calibrated)));
  }
  if (arguments.mirror) refuse("--calibrate is for outputs as they are, without --tta");
  const FactOptions& facts = arguments.facts;
  if (!facts.model.empty() || !facts.classes.empty() || !facts.preprocess.empty() ||
      !facts.weights_key.empty()) {
    refuse(
        "--calibrate writes the weights as they are, without --model, --classes, --input or "
        "--weights-key: 'whisker import' with these options writes a file that says them; "
        "calibrate that one");
  }
  const SafetensorsFile file = open_described_weights(arguments.weights);
  const auto& metadata = file.metadata();
  if (metadata.contains("config") || (metadata.contains("arch") && metadata.contains("classes"))) {
    return;
  }
  refuse(fmt::format(
      "--calibrate: {} does not say which network it is. 'whisker import {} -o FILE.safetensors' "
      "writes a file that does; calibrate that one",
      printable(arguments.weights), printable(arguments.weights)));
}

// "val" of "../data/val/".
std::string last_name(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

CalibratedWeights::CalibratedWeights(Outputs& outputs, const EvaluateArguments& arguments,
                                     RankGroup& ranks)
    : outputs_(outputs), arguments_(arguments) {
  check_calibrate_arguments(arguments);
  if (arguments.calibrate && ranks.leads()) {
    file_ = outputs_.open("-o", arguments.calibrated, calibrated_format);
  }
}

void CalibratedWeights::observe(EvaluateOptions& options) {
  if (!arguments_.calibrate) return;
  options.observe_logits = [this](const Tensor& logits, const Batch& batch) {
    rows_.add(logits, batch);
  };
}

std::optional<TemperatureFit> CalibratedWeights::fit(RankGroup& ranks) {
  if (arguments_.calibrate) fit_ = rows_.fit(ranks);
  return fit_;
}

std::vector<std::string> CalibratedWeights::names_of_data() const {
  if (!arguments_.split.empty()) return {fmt::format("the run's {} split", arguments_.split)};
  if (!arguments_.csv.empty()) return {last_name(arguments_.csv)};
  std::vector<std::string> names;
  for (const std::string& input : arguments_.inputs) {
    names.push_back(input == "-" ? "a list on standard input" : last_name(input));
  }
  return names;
}

void CalibratedWeights::write(int64_t examples, std::span<const uint64_t> contents) {
  if (!file_ || !fit_) return;
  const SafetensorsFile weights = open_described_weights(arguments_.weights);
  std::map<std::string, std::string> metadata = weights.metadata();
  const CalibrationRecord record{.temperature = fit_->temperature,
                                 .data = names_of_data(),
                                 .examples = examples,
                                 .contents = content_sample(contents)};
  metadata[calibration_key] = record.json();
  std::vector<SafetensorsEntry> entries;
  for (const SafetensorsTensor& tensor : weights.tensors()) {
    entries.push_back(
        {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = [&tensor] {
           return tensor.bytes;
         }});
  }
  write_safetensors([&](std::span<const std::byte> some) { file_->write(some); },
                    arguments_.calibrated, metadata, std::move(entries));
  outputs_.commit(*file_, "-o", calibrated_format);
}

}  // namespace whisker
