// whisker train CONFIG [overrides], --resume RUN, --repeat RUN, --init WEIGHTS, --dry-run.
#include "apps/commands/key_options.h"
#include "apps/ranks/launcher.h"
#include "apps/ranks/run_ranks.h"
#include "apps/ranks/same_inputs.h"
#include "apps/terminal/command.h"
#include "apps/terminal/pretrained_files.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/start_report.h"
#include "apps/terminal/terminal.h"
#include "core/backend/memory_summary.h"
#include "core/io/atomic_file.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/images/split_list.h"
#include "layers/builder/presets.h"
#include "train/data/validation_overlap.h"
#include "train/device/autotune_cache.h"
#include "train/device/device_choice.h"
#include "train/inference/test_set.h"
#include "train/loop/repeat.h"
#include "train/loop/trainer.h"
#include "train/one_command.h"
#include "train/planning/batch_size_search.h"
#include "train/planning/dry_run.h"
#include "train/planning/find_lr.h"
#include "train/planning/memory_advice.h"
#include "train/ranks/same_run.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

namespace whisker {
namespace {

struct TrainArguments {
  std::vector<std::string> words;  // CONFIG and overrides, or overrides alone with --resume
  std::string resume, repeat;
  std::string init, weights_key;
  std::string gpus;
  int max_restarts = 0;
  OneCommand one_command;  // where there is no CONFIG
  bool pretrained = false;
  bool dry_run = false;
  bool find_lr = false;
};

int exit_code_of(const TrainResult& result) {
  if (result.reason != StopReason::signal) return 0;
  return result.signal == SIGINT ? 130 : 75;
}

std::string closing_line(const TrainResult& result) {
  static constexpr std::string_view reasons[] = {"finished",
                                                 "stopped early: the metric stalled",
                                                 "stopped: the time budget is used up",
                                                 "stopped by a signal, saved",
                                                 "finished what fits into the time budget",
                                                 "stopped where the repeated run ended"};
  std::string line =
      fmt::format("{} after {} and {} step{}", reasons[static_cast<size_t>(result.reason)],
                  human_seconds(result.seconds), result.steps, result.steps == 1 ? "" : "s");
  if (result.best_epoch >= 0) {
    line += fmt::format("; best validation {} {} in epoch {}", result.best_figure,
                        figure_text(result.best_metric), result.best_epoch + 1);
  }
  return line;
}

// Which weights the table below it is of: not always the best ones.
std::string validation_heading(const TrainResult& result) {
  const bool best = result.best_epoch == result.validation_epoch;
  return fmt::format("validation after epoch {}{}:\n", result.validation_epoch + 1,
                     best
                         ? ", the best"
                         : fmt::format("; best.safetensors is of epoch {}", result.best_epoch + 1));
}

// That a run lies in its own data, which is easily meant otherwise; "" where it does not.
std::string inside_data_note(const RunFolder& folder, const DataConfig& data) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path run = fs::weakly_canonical(folder.path(), error);
  for (const auto& [key, path] :
       {std::pair{"data.train", &data.train}, {"data.val", &data.val}, {"data.test", &data.test}}) {
    if (path->empty() || !fs::is_directory(*path, error)) continue;
    const fs::path below = run.lexically_relative(fs::canonical(*path, error));
    if (below.empty() || *below.begin() == "..") continue;
    return fmt::format(
        "the run folder lies in {} ({}): folders of runs are never data. runs=FOLDER puts them "
        "elsewhere.",
        key, printable(*path));
  }
  return "";
}

// Collective. The ranks whose log and profile are left out, and why; "" for none.
std::string unreachable_note(const RunFolder& folder, RankGroup& ranks) {
  const std::vector<std::string> hosts =
      ranks.all_gather(folder.writes() || folder.reachable() ? "" : host_name());
  std::string note;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank].empty()) continue;
    note += fmt::format("{}rank {} on {}", note.empty() ? "" : ", ", rank, hosts[rank]);
  }
  if (note.empty()) return note;
  return note +
         ": cannot write to the run folder, so its log.rankN.txt and trace.rankN.json are "
         "left out. Put runs on a file system that all machines share.";
}

// The line of metrics.jsonl with the result of `set`; resuming cuts it off behind the checkpoint.
std::string test_line(const RunFolder& folder, const std::string& set) {
  JsonWriter json;
  json.begin_object().field("kind", "test").field("data", set);
  std::string begin = json.end_object().str();
  begin.back() = ',';  // the line goes on
  std::ifstream log(folder.path() / "metrics.jsonl");
  std::string found;
  for (std::string line; std::getline(log, line) && !log.eof();) {
    if (line.starts_with(begin)) found = line + "\n";
  }
  return found;
}

void measure_test(const Experiment& experiment, RunFolder& folder, int64_t best_epoch,
                  Progress& progress) {
  Config own = experiment.config;  // rank 0 measures alone
  own.train.batch_size = std::max<int64_t>(1, own.train.batch_size / experiment.ranks->world());
  const auto [test, bad] =
      measure_test_set(own, folder.best(), experiment.device, experiment.arena->compute_dtype());
  for (const std::string& line : bad) progress.on_message("data.test: " + line);
  progress.on_message(fmt::format("test: {} {}  {}",
                                  own.data.kind == DataKind::images ? "images" : "examples",
                                  test->count(), test->line()));
  JsonWriter json(NonFinite::null);
  json.begin_object().field("kind", "test").field("data", own.data.test);
  json.field("epoch", best_epoch + 1);
  test->write(json);
  folder.metrics().append(json.end_object().str() + "\n");
}

// A run to be repeated.
struct Recorded {
  std::filesystem::path run;
  TrainState state;
};

// Exit code 4 where the weights differ, unless a GPU may give others each time.
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

int train_in(Experiment& experiment, RunFolder& folder, bool resume, const Invocation& invocation,
             const Recorded* recorded = nullptr) {
  const Config& config = experiment.config;
  const std::atomic<int>& stop = catch_stop_signals();
  if (!folder.writes() && config.train.log_ranks && folder.reachable()) {
    folder.open_log(experiment.ranks->rank());
  }
  Progress progress(folder, experiment.device, config.data.kind,
                    folder.writes() ? invocation.verbosity : -1);
  progress.on_message(fmt::format("{}: {}; {}", printable(folder.path().string()),
                                  experiment.data.describe(), experiment.device));
  if (const std::string note = inside_data_note(folder, config.data); !note.empty()) {
    progress.on_message(note);
  }
  if (const std::string table = experiment.data.class_table(); !table.empty()) {
    progress.on_message(table);
  }
  for (const std::string& note : experiment.notes) progress.on_message("  " + note);
  if (folder.writes()) {
    for (const std::string& note : validation_overlap(config, experiment.data.images)) {
      progress.on_message("  " + note);
    }
  }
  for (const std::string& detail : experiment.details) progress.on_detail(detail);
  if (config.train.log_ranks || config.train.profile > 0) {
    const std::string note = unreachable_note(folder, experiment.ranks->group());
    if (!note.empty()) progress.on_message(note);
  }
  progress.on_detail(fmt::format("data and network ready {:.2f} s after the program started",
                                 seconds_since_process_start()));

  Trainer trainer(experiment, folder, progress, stop);
  std::string tested;
  if (resume) {
    if (folder.writes()) tested = test_line(folder, config.data.test);
    trainer.resume();
  } else if (recorded) {
    trainer.repeat(recorded->state);
    progress.on_message(fmt::format("repeats {}: its timed algorithms, its plan, and its {} steps",
                                    printable(recorded->run.string()),
                                    grouped(recorded->state.step)));
  } else {
    load_algorithms(experiment.device);
  }
  const ImageFolders images = std::exchange(experiment.data.images, {});
  if (folder.writes()) {
    // A run that does not go on keeps the configuration that it was trained with.
    if (!resume || !trainer.is_done()) {
      write_file_atomically(folder.config(), print_config(config));
    }
    report_run(folder.path());
  }
  if (folder.writes() && config.data.kind == DataKind::images) {
    write_file_atomically(folder.split(), split_csv(images.train, images.val));
  }
  const uint64_t log_size = folder.writes() ? folder.metrics().offset() : 0;
  const TrainResult result = with_memory_advice(experiment, [&] { return trainer.run(); });
  if (folder.writes()) save_algorithms(experiment.device);
  for (const BatchSource* loader : {experiment.train.get(), experiment.val.get()}) {
    for (const BadSample& bad : loader->bad_samples()) {
      progress.on_message(fmt::format("unreadable: {}", bad.reason));
    }
  }
  const bool whole = result.reason != StopReason::time_budget &&
                     result.reason != StopReason::signal && result.reason != StopReason::repeated;
  if (whole && folder.writes() && !config.data.test.empty()) {
    if (!tested.empty() && folder.metrics().offset() == log_size) {
      folder.metrics().append(tested);  // of this very network
    } else {
      measure_test(experiment, folder, result.best_epoch, progress);
    }
  }
  if (result.validation) {
    const std::string table = result.validation->table(terminal_width(stderr) - 2);
    if (!table.empty()) progress.on_message(validation_heading(result) + indented(table));
  }
  folder.log(to_text(memory_summary(experiment.device), experiment.device));
  progress.on_message(closing_line(result));
  if (result.reason == StopReason::signal) {
    progress.on_message(
        fmt::format("continue with: whisker train --resume {}", printable(folder.path().string())));
  }
  int code = exit_code_of(result);
  if (recorded && code == 0 && folder.writes()) {
    code = compare_with(*recorded, folder, config, experiment.device, progress);
  }
  folder.close();
  if (experiment.ranks->rank() == 0) print_result(printable(folder.path().string()) + "\n");
  return code;
}

// work(); what ends it stands in the run's log as well, and a folder that somebody removed is no
// wrong call.
template <class Work>
int logged(RunFolder& folder, const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    std::error_code unknown;
    if (folder.writes() && !std::filesystem::is_directory(folder.last(), unknown)) {
      fail(ErrorKind::disk,
           "{}: the run folder was removed while the run wrote to it; nothing more can be saved.",
           printable(folder.path().string()));
    }
    try {
      folder.log(fmt::format("error: {}", error.what()));
    } catch (const Error&) {
      // The disk may be what the error is about, which is said in any case.
    }
    throw;
  }
}

// A new run's folder, which rank 0 makes.
RunFolder new_folder(RankGroup& ranks, const Config& config) {
  std::optional<RunFolder> own;
  if (ranks.leads()) own = RunFolder::create(config.runs, config.name);
  const std::string path = ranks.from_leader(own ? own->path().string() : "");
  return own ? std::move(*own) : RunFolder::of_rank_0(path);
}

// A run goes on as its config.yaml says, which holds the overrides.
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

void check_resume(const TrainArguments& arguments) {
  const bool starts = !arguments.init.empty() || !arguments.weights_key.empty();
  if (arguments.dry_run || arguments.find_lr || starts) {
    fail(ErrorKind::usage,
         "--resume: not together with --dry-run or --init, nor with --find-lr or --weights-key");
  }
  for (const std::string& assignment : arguments.words) {
    const std::string key = assignment.substr(0, assignment.find('='));
    if (key == "name" || key == "runs") {
      fail(ErrorKind::usage,
           "--resume: '{}': a resumed run stays in its folder. Leave it out, or move the folder "
           "first.",
           assignment);
    }
    if (!may_change_on_resume(key)) {
      fail(ErrorKind::usage,
           "--resume: '{}' cannot change in a resumed run. It may change the keys marked with * "
           "in 'whisker config keys'. Leave it out, or {}.",
           assignment, new_run_remedy(arguments.resume));
    }
  }
}

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

int resume_run(const TrainArguments& arguments, const std::shared_ptr<RankGroup>& ranks,
               Invocation& invocation) {
  RunFolder folder =
      ranks->leads() ? RunFolder::open(arguments.resume) : RunFolder::of_rank_0(arguments.resume);
  require_same_checkpoint(*ranks, folder);
  Config config = read_run_config(folder.config().string(), arguments.words);
  if (const int count = ranks_to_start(arguments.gpus, config.device, arguments.max_restarts);
      count > 0) {
    folder.close();
    return start_ranks(count, restarts_of(arguments, invocation));
  }
  require_same_config(*ranks, config);
  invocation.device_start.emplace(device_of_rank(config.device, *ranks));
  return logged(folder, [&] {
    Experiment experiment(std::move(config), StartFrom::checkpoint, ranks);
    return train_in(experiment, folder, true, invocation);
  });
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
  if (!arguments.repeat.empty()) {
    require_same_checkpoint(*ranks, RunFolder::of_rank_0(arguments.repeat));
    recorded = {.run = arguments.repeat,
                .state = load_last(std::filesystem::path(arguments.repeat) / "last").state};
    check_repeatable(recorded->run, recorded->state, experiment);
  }
  RunFolder folder = new_folder(*ranks, experiment.config);
  return logged(folder, [&] {
    return train_in(experiment, folder, false, invocation, recorded ? &*recorded : nullptr);
  });
}

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
    fail(ErrorKind::usage,
         "train: '{}': with --data there is no configuration file; expected section.key=value. "
         "Beside a file use data.train=.",
         word);
  }
}

// What stands where a configuration is expected and is something else that `train` can use.
void refuse_other_targets(const std::string& target) {
  namespace fs = std::filesystem;
  const auto refuse = [&target](std::string_view what, const std::string& remedy) {
    fail(ErrorKind::usage, "train: expected a configuration file (YAML), got {}, {}. {}", what,
         excerpt(target), remedy);
  };
  const std::string word = shell_word(target);
  std::error_code error;
  const fs::path path(target);
  constexpr std::string_view of_weights[] = {".safetensors", ".pth", ".pt", ".bin", ".ckpt"};
  if (std::ranges::count(of_weights, path.extension().string()) > 0) {
    refuse("weights", fmt::format("Fine-tune them: whisker train --data DIR --weights {}", word));
  }
  constexpr std::string_view of_others[] = {".keras", ".h5", ".hdf5", ".onnx"};
  if (std::ranges::count(of_others, path.extension().string()) > 0) {
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
  if (!fs::exists(path, error) && find_preset(target)) {
    refuse("the name of a network",
           fmt::format("Train it: whisker train --data DIR --model {}", word));
  }
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
