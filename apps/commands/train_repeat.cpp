#include "apps/commands/train_repeat.h"

#include "core/error.h"
#include "core/io/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/repeat.h"
#include "train/ranks/same_run.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/ranges.h>

namespace whisker {

// What a repeated run may set: where things are, and the threads that the run had.
void check_repeat(const TrainArguments& arguments) {
  constexpr std::string_view free_keys[] = {"name",         "runs",      "data.train",
                                            "data.val",     "data.test", "data.csv",
                                            "data.workers", "init.from", "runtime.threads"};
  const bool others = !arguments.resume.empty() || !arguments.init.empty() ||
                      !arguments.weights_key.empty() || !arguments.one_command.data.empty();
  if (others || arguments.dry_run || arguments.find_lr || arguments.max_restarts > 0) {
    fail(
        ErrorKind::usage,
        "--repeat: not together with --resume, --data, --init, --weights-key, --dry-run, --find-lr "
        "or --max-restarts");
  }
  for (const std::string& word : arguments.words) {
    if (std::ranges::find(free_keys, word.substr(0, word.find('='))) != std::end(free_keys))
      continue;
    fail(ErrorKind::usage,
         "--repeat: '{}' would make another run; expected one of {}. Another run with the same "
         "configuration: whisker train {}/config.yaml {}",
         word, fmt::join(free_keys, ", "), printable(arguments.repeat), word);
  }
  if (!std::filesystem::is_regular_file(std::filesystem::path(arguments.repeat) / "config.yaml")) {
    fail(
        ErrorKind::checkpoint,
        "--repeat: {}: not a run folder (no config.yaml in it). Name a folder that 'whisker train' "
        "made.",
        printable(arguments.repeat));
  }
}

Recorded recorded_run(const TrainArguments& arguments, const Experiment& experiment,
                      RankGroup& ranks) {
  require_same_checkpoint(ranks, RunFolder::of_rank_0(arguments.repeat));
  Recorded recorded{.run = arguments.repeat,
                    .state = load_last(std::filesystem::path(arguments.repeat) / "last").state};
  check_repeatable(recorded.run, recorded.state, experiment);
  return recorded;
}

int compare_with(const Recorded& recorded, const RunFolder& folder, const Config& config,
                 Device device, Progress& progress) {
  const std::string name = printable(recorded.run.string());
  if (same_weights(recorded.run, folder.path())) {
    progress.on_message(fmt::format("the weights are those of {}, bit for bit", name));
    return 0;
  }
  const bool may_differ = device.kind == DeviceKind::cuda && !config.deterministic;
  progress.on_message(fmt::format(
      "the weights differ from those of {}: {}", name,
      may_differ ? "a GPU repeats bits with deterministic: true only"
                 : "init.from or data have another content, or one of the runs was short of memory "
                   "and used other algorithms"));
  return may_differ ? 0 : static_cast<int>(ErrorKind::checkpoint);
}

}  // namespace whisker
