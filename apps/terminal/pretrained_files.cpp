#include "apps/terminal/pretrained_files.h"

#include "apps/terminal/program_files.h"
#include "core/error.h"
#include "core/io/shell_word.h"
#include "core/io/text.h"
#include "core/io/user_folder.h"
#include "layers/builder/presets.h"

#include <system_error>
#include <vector>

namespace whisker {
namespace fs = std::filesystem;
namespace {

fs::path fetch_script() {
  const fs::path script =
      beside_program({"scripts/fetch_weights.sh", "share/whisker/scripts/fetch_weights.sh"});
  return script.empty() ? "scripts/fetch_weights.sh" : script;
}

}  // namespace

fs::path weights_folder() {
  const fs::path data = user_folder("XDG_DATA_HOME", ".local/share");
  return data.empty() ? data : data / "whisker" / "weights";
}

fs::path downloaded(const PretrainedWeights& weights) {
  std::error_code error;
  const fs::path file = weights_folder() / weights.file;
  return file.is_absolute() && fs::is_regular_file(file, error) ? file : fs::path();
}

std::string fetch_command(const PretrainedWeights& weights) {
  return fmt::format("{} {}", shell_word(from_here(fetch_script()).string()), weights.preset);
}

void fail_unknown_model(std::string_view what, const std::string& name) {
  std::vector<std::string> known = preset_names();
  for (const auto& [alias, preset] : preset_aliases()) known.push_back(alias);
  const std::string nearest = nearest_name(name, known);
  fail(ErrorKind::usage,
       "{}: expected the name of a network, got {}.{} 'whisker models' lists them.", what,
       excerpt(name),
       nearest.empty() ? std::string() : fmt::format(" Did you mean '{}'?", nearest));
}

const PretrainedWeights& pretrained_of(const std::string& model) {
  const std::string name(model.empty() ? default_pretrained : std::string_view(model));
  if (const PretrainedWeights* found = find_pretrained(name)) return *found;
  if (!find_preset(name)) fail_unknown_model("train --pretrained: --model", name);
  fail(ErrorKind::usage,
       "train --pretrained: no weights file of '{}' is known. 'whisker models' lists the networks "
       "that have one; without --pretrained a new network is trained.",
       name);
}

fs::path pretrained_file(const PretrainedWeights& weights) {
  const fs::path file = downloaded(weights);
  if (!file.empty()) return file;
  fail(ErrorKind::checkpoint,
       "train --pretrained: no weights of {} at {}. This command downloads them: {}",
       weights.preset, (weights_folder() / weights.file).string(), fetch_command(weights));
}

std::string unused_pretrained_note(const std::string& model) {
  const PretrainedWeights* found = find_pretrained(model.empty() ? default_pretrained : model);
  if (found && downloaded(*found).empty()) found = nullptr;
  if (!found && model.empty()) {
    for (const PretrainedWeights& weights : pretrained_weights()) {
      if (downloaded(weights).empty()) continue;
      found = &weights;
      break;
    }
  }
  if (!found) return "";
  const bool is_default = found->preset == default_pretrained;
  return fmt::format(
      "a new network is trained, although pretrained weights of {} are here: {}--pretrained starts "
      "from them",
      found->preset, is_default ? "" : fmt::format("--model {} ", found->preset));
}

}  // namespace whisker
