// whisker train CONFIG [overrides], --resume RUN, --repeat RUN, --init WEIGHTS, --dry-run.
#include "apps/commands/key_options.h"
#include "apps/commands/train_arguments.h"
#include "apps/commands/train_repeat.h"
#include "apps/commands/train_resume.h"
#include "apps/commands/train_run.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/pretrained_files.h"
#include "apps/terminal/terminal.h"
#include "core/io/atomic_file.h"
#include "core/io/text.h"
#include "train/device/device_choice.h"
#include "train/one_command.h"
#include "train/planning/batch_size_search.h"
#include "train/planning/dry_run.h"
#include "train/planning/find_lr.h"
#include "train/ranks/same_run.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace whisker {
namespace {

// A new run's folder, which rank 0 makes.
RunFolder new_folder(RankGroup& ranks, const Config& config) {
  std::optional<RunFolder> own;
  if (ranks.leads()) own = RunFolder::create(config.runs, config.name);
  const std::string path = ranks.from_leader(own ? own->path().string() : "");
  return own ? std::move(*own) : RunFolder::of_rank_0(path);
}

// Writes the curves into a new folder, and nothing else.
int find_rate(Config config) {
  settle_batch_size(config);
  const RangeTests tests = find_learning_rates(config);
  const std::filesystem::path curve = new_folder_of(config.runs, config.name) / "find_lr.svg";
  write_file_atomically(curve, range_test_svg(tests));
  tell(suggestion_text(tests, config.unfreeze_at));
  print_result(printable(curve.string()) + "\n");
  return 0;
}

Config new_config(const TrainArguments& arguments) {
  if (!arguments.repeat.empty()) {
    return read_run_config((std::filesystem::path(arguments.repeat) / "config.yaml").string(),
                           arguments.words);
  }
  if (!arguments.one_command.data.empty()) {
    OneCommand command = arguments.one_command;
    if (arguments.pretrained) {
      const PretrainedWeights& weights = pretrained_of(command.model);
      command.model = weights.preset;
      command.weights = pretrained_file(weights).string();
    }
    return one_command_config(command, arguments.words);
  }
  return read_config(arguments.words[0], {arguments.words.begin() + 1, arguments.words.end()});
}

// Which weights were chosen, or not; "" where the command says it.
std::string pretrained_note(const TrainArguments& arguments) {
  const OneCommand& one = arguments.one_command;
  if (arguments.pretrained && one.model.empty()) {
    return fmt::format("--pretrained without --model: {} is assumed; --model NAME takes another",
                       default_pretrained);
  }
  const bool new_network = !one.data.empty() && one.weights.empty() && !arguments.pretrained;
  return new_network ? unused_pretrained_note(one.model) : "";
}

int new_run(const TrainArguments& arguments, const std::shared_ptr<RankGroup>& ranks,
            Invocation& invocation) {
  Config config = new_config(arguments);
  if (!arguments.init.empty()) config.init.from = arguments.init;
  if (!arguments.weights_key.empty()) config.init.key = arguments.weights_key;
  if (const int count = ranks_to_start(arguments.gpus, config.device, arguments.max_restarts);
      count > 0 && !arguments.dry_run && !arguments.find_lr) {
    return start_ranks(count, restarts_of(arguments, invocation));
  }
  if (ranks->world() > 1 && (arguments.dry_run || arguments.find_lr)) {
    fail(ErrorKind::usage, "train: --dry-run and --find-lr are for one process, got {} ranks.",
         ranks->world());
  }
  require_same_config(*ranks, config,
                      arguments.one_command.data.empty()
                          ? ""
                          : "With --data, the number of images there decides some of its keys.");
  invocation.device_start.emplace(device_of_rank(config.device, *ranks));
  const std::string weights_note = pretrained_note(arguments);
  const bool trains = !arguments.dry_run && !arguments.find_lr;
  if (!trains && !weights_note.empty() && invocation.verbosity >= 0) tell(weights_note + "\n");
  if (arguments.dry_run) {
    print_result(dry_run(std::move(config)));
    return 0;
  }
  if (arguments.find_lr) return find_rate(std::move(config));
  // First: what fails leaves no run folder behind.
  const std::string batch_size_note = settle_batch_size(config, *ranks);
  Experiment experiment(std::move(config), StartFrom::initial_weights, ranks);
  if (!batch_size_note.empty()) experiment.notes.push_back(batch_size_note);
  if (!weights_note.empty()) experiment.notes.push_back(weights_note);
  std::optional<Recorded> recorded;
  if (!arguments.repeat.empty()) recorded = recorded_run(arguments, experiment, *ranks);
  RunFolder folder = new_folder(*ranks, experiment.config);
  return logged(folder, [&] {
    return train_in(experiment, folder, false, invocation, recorded ? &*recorded : nullptr);
  });
}

int run_train(TrainArguments arguments, Invocation& invocation) {
  RunRanks ranks;
  return ranks.run([&] {
    require_same_command(*ranks.group(), *invocation.command);
    const std::vector<std::string> assignments =
        key_option_assignments(*invocation.command, arguments.words);
    const bool own_words = !arguments.words.empty();
    arguments.words.insert(arguments.words.end(), assignments.begin(), assignments.end());
    if (!arguments.repeat.empty()) check_repeat(arguments);
    if (!arguments.resume.empty()) check_resume(arguments);
    check_one_command(arguments);
    if (arguments.resume.empty() && arguments.repeat.empty() &&
        arguments.one_command.data.empty()) {
      if (!own_words) {
        fail(ErrorKind::usage,
             "train: expected a configuration file, --data DIR, --resume RUN, or --repeat RUN");
      }
      refuse_other_targets(arguments.words[0]);
    }
    return arguments.resume.empty() ? new_run(arguments, ranks.group(), invocation)
                                    : resume_run(arguments, ranks.group(), invocation);
  });
}

}  // namespace

void add_train_command(CLI::App& app, Invocation& invocation) {
  CLI::App* train =
      app.add_subcommand("train", "Train or fine-tune a network; prints the run folder");
  auto arguments = std::make_shared<TrainArguments>();
  train->add_option("CONFIG", arguments->words, "YAML file, then overrides: section.key=value");
  train->add_option("--data", arguments->one_command.data,
                    "Without CONFIG: train on this folder of class folders; overrides may follow");
  train->add_option("--weights", arguments->one_command.weights,
                    "With --data: fine-tune the network of these weights (safetensors)");
  train->add_option(
      "--model", arguments->one_command.model,
      "With --data: a preset, where --weights does not say or a new network is wanted");
  train->add_flag("--pretrained", arguments->pretrained,
                  fmt::format("With --data: fine-tune downloaded weights of --model ({}); 'whisker "
                              "models' lists them",
                              default_pretrained));
  train->add_option("--resume", arguments->resume, "Continue this run folder where it stopped");
  train->add_option("--repeat", arguments->repeat,
                    "Train as this run did, with its timed algorithms and its plan, into a new "
                    "folder: the same bits");
  add_key_options(train);
  train->add_option("--init", arguments->init, "Start from these weights (safetensors)");
  train->add_option("--weights-key", arguments->weights_key,
                    "Of a checkpoint in --weights or --init: the key of the weights, as model_ema "
                    "(init.key)");
  train->add_option("--gpus", arguments->gpus,
                    "Train on so many GPUs of this machine, or all: one process each");
  train
      ->add_option("--max-restarts", arguments->max_restarts,
                   "After a failure that may pass, start again from the last checkpoint, so often")
      ->check(CLI::Range(0, 1'000'000));
  train->add_flag("--find-lr", arguments->find_lr,
                  "Try learning rates, draw the loss over them and suggest one; train nothing");
  train->add_flag("--dry-run", arguments->dry_run,
                  "Build everything, try one batch, print memory and time; train nothing");
  set_action(train, invocation,
             [&invocation, arguments] { return run_train(*arguments, invocation); });
}

}  // namespace whisker
