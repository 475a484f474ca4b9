#include "apps/commands/train_arguments.h"

#include "core/error.h"
#include "core/io/file_ending.h"
#include "core/io/shell_word.h"
#include "core/io/text.h"
#include "layers/builder/presets.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace whisker {

void check_one_command(const TrainArguments& arguments) {
  const OneCommand& one = arguments.one_command;
  const bool any =
      !one.data.empty() || !one.weights.empty() || !one.model.empty() || arguments.pretrained;
  if (!any) return;
  if (one.data.empty() || !arguments.resume.empty() || !arguments.init.empty()) {
    fail(ErrorKind::usage,
         "train: --weights, --pretrained and --model go with --data DIR, which goes neither with "
         "--resume nor with --init. Beside a configuration file use --init, model= and "
         "data.train=.");
  }
  if (arguments.pretrained && !one.weights.empty()) {
    fail(ErrorKind::usage,
         "train: --pretrained and --weights both say where the training starts: leave one out.");
  }
  for (const std::string& word : arguments.words) {
    if (word.find('=') != std::string::npos) continue;
    if (find_preset(word)) {
      fail(ErrorKind::usage, "train: {}: a network is named by --model {}.", excerpt(word), word);
    }
    fail(ErrorKind::usage,
         "train: '{}': with --data there is no configuration file; expected section.key=value. "
         "Beside a file use data.train=.",
         word);
  }
}

void refuse_other_targets(const std::string& target) {
  namespace fs = std::filesystem;
  const auto refuse = [&target](std::string_view what, const std::string& remedy) {
    fail(ErrorKind::usage, "train: expected a configuration file (YAML), got {}, {}. {}", what,
         excerpt(target), remedy);
  };
  const std::string word = shell_word(target);
  std::error_code error;
  const fs::path path(target);
  const std::string ending = file_ending(path);
  constexpr std::string_view of_weights[] = {".safetensors", ".pth", ".pt", ".bin", ".ckpt"};
  if (std::ranges::count(of_weights, ending) > 0) {
    refuse("weights", fmt::format("Fine-tune them: whisker train --data DIR --weights {}", word));
  }
  constexpr std::string_view of_others[] = {".keras", ".h5", ".hdf5", ".onnx"};
  if (std::ranges::count(of_others, ending) > 0) {
    refuse(
        "a network of another program",
        "Weights of PyTorch (.pth) and safetensors files can be fine-tuned: whisker train --data "
        "DIR --weights FILE");
  }
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / "config.yaml", error)) {
      refuse("a run folder",
             fmt::format("Continue that run: whisker train --resume {}. Train it again: whisker "
                         "train --repeat {}",
                         word, word));
    }
    refuse("a folder", fmt::format("Train on its images: whisker train --data {}", word));
  }
  const size_t equals = target.find('=');
  if (!fs::exists(path, error) && equals != std::string::npos) {
    const bool names_data = target.starts_with("data=") || target.starts_with("data.train=");
    refuse("a setting",
           fmt::format("Train on a folder of images: whisker train --data {}",
                       names_data ? shell_word(target.substr(equals + 1)) : std::string("DIR")));
  }
  if (!fs::exists(path, error) && find_preset(target)) {
    refuse("the name of a network",
           fmt::format("Train it: whisker train --data DIR --model {}", word));
  }
}

Restarts restarts_of(const TrainArguments& arguments, const Invocation& invocation) {
  const auto resume = [&invocation](const std::string& run) {
    std::vector<std::string> words = {"whisker", "train",   "--resume",
                                      run,       "--color", invocation.color};
    if (invocation.verbosity < 0) words.emplace_back("-q");
    for (int i = 0; i < invocation.verbosity; ++i) words.emplace_back("-v");
    return words;
  };
  return {.most = arguments.max_restarts, .resume = resume};
}

}  // namespace whisker
