// whisker train CONFIG [overrides], --resume RUN, --init WEIGHTS, --dry-run.
#include "apps/command.h"
#include "apps/process_time.h"
#include "apps/progress.h"
#include "apps/signals.h"
#include "core/io/atomic_file.h"
#include "core/memory_summary.h"
#include "train/dry_run.h"
#include "train/memory_advice.h"
#include "train/plan_cache.h"
#include "train/trainer.h"

#include <csignal>

namespace whisker {
namespace {

struct TrainArguments {
  std::vector<std::string> words;  // CONFIG and overrides, or overrides alone with --resume
  std::string resume;
  std::string init;
  bool dry_run = false;
};

int exit_code_of(const TrainResult& result, int signal) {
  if (result.reason != StopReason::signal) return 0;
  return signal == SIGINT ? 130 : 75;
}

std::string closing_line(const TrainResult& result) {
  static constexpr std::string_view reasons[] = {"finished", "stopped early: the metric stalled",
                                                 "stopped: the time budget is used up",
                                                 "stopped by a signal, saved"};
  std::string line =
      fmt::format("{} after {} and {} step{}", reasons[static_cast<size_t>(result.reason)],
                  human_seconds(result.seconds), result.steps, result.steps == 1 ? "" : "s");
  if (result.best_epoch >= 0) {
    line += fmt::format("; best validation {} {:.4f} in epoch {}", result.best_figure,
                        result.best_metric, result.best_epoch + 1);
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

int train_in(Experiment& experiment, const Config& config, RunFolder& folder, bool resume,
             const Invocation& invocation) {
  const std::atomic<int>& stop = catch_stop_signals();
  Progress progress(folder, experiment.device, config.data.kind, invocation.verbosity);
  progress.on_message(fmt::format("{}: {}; {}", folder.path().string(), experiment.data.describe(),
                                  experiment.device));
  if (const std::string table = experiment.data.class_table(); !table.empty()) {
    progress.on_message(table);
  }
  for (const std::string& note : experiment.notes) progress.on_message("  " + note);
  for (const std::string& detail : experiment.details) progress.on_detail(detail);
  progress.on_detail(fmt::format("data and network ready {:.2f} s after the program started",
                                 seconds_since_process_start()));

  Trainer trainer(experiment, folder, progress, stop);
  if (resume) {
    trainer.resume();
  } else {
    load_plans(experiment.device);
  }
  write_file_atomically(folder.config(), print_config(config));
  const TrainResult result = with_memory_advice(experiment, [&] { return trainer.run(); });
  save_plans(experiment.device);
  for (const BatchSource* loader : {experiment.train.get(), experiment.val.get()}) {
    for (const BadSample& bad : loader->bad_samples()) {
      progress.on_message(fmt::format("unreadable: {}", bad.reason));
    }
  }
  if (result.validation) {
    const std::string table = result.validation->table();
    if (!table.empty()) progress.on_message(validation_heading(result) + table);
  }
  folder.log().append(to_text(memory_summary(experiment.device), experiment.device));
  progress.on_message(closing_line(result));
  if (result.reason == StopReason::signal) {
    progress.on_message(
        fmt::format("continue with: whisker train --resume {}", folder.path().string()));
  }
  print_result(folder.path().string() + "\n");
  return exit_code_of(result, stop.load());
}

int run_train(const TrainArguments& arguments, Invocation& invocation) {
  if (!arguments.resume.empty()) {
    if (arguments.dry_run || !arguments.init.empty()) {
      fail(ErrorKind::usage, "--resume: not together with --dry-run or --init");
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
             "--resume: '{}' would make another run of this one. A resumed run may change the keys "
             "marked with * in 'whisker config keys'. Start a new run instead.",
             assignment);
      }
    }
    RunFolder folder = RunFolder::open(arguments.resume);
    const Config config = read_config(folder.config().string(), arguments.words);
    invocation.device_start.emplace(config.device);
    Experiment experiment(config, StartFrom::checkpoint);
    return train_in(experiment, config, folder, true, invocation);
  }
  if (arguments.words.empty()) {
    fail(ErrorKind::usage, "train: expected a configuration file, or --resume RUN");
  }
  std::vector<std::string> overrides(arguments.words.begin() + 1, arguments.words.end());
  Config config = read_config(arguments.words[0], overrides);
  if (!arguments.init.empty()) config.init.from = arguments.init;
  invocation.device_start.emplace(config.device);
  if (arguments.dry_run) {
    print_result(dry_run(std::move(config)));
    return 0;
  }
  Experiment experiment(config);  // first: what fails here leaves no run folder behind
  config.model = experiment.config.model;
  config.train.batch_size = experiment.config.train.batch_size;
  RunFolder folder = RunFolder::create(config.runs, config.name);
  return train_in(experiment, config, folder, false, invocation);
}

}  // namespace

void add_train_command(CLI::App& app, Invocation& invocation) {
  CLI::App* train =
      app.add_subcommand("train", "Train or fine-tune a network; prints the run folder");
  auto arguments = std::make_shared<TrainArguments>();
  train->add_option("CONFIG", arguments->words, "YAML file, then overrides: section.key=value");
  train->add_option("--resume", arguments->resume, "Continue this run folder where it stopped");
  train->add_option("--init", arguments->init, "Start from these weights (safetensors)");
  train->add_flag("--dry-run", arguments->dry_run,
                  "Build everything, try one batch, print memory and time; train nothing");
  train->callback([&invocation, arguments] {
    invocation.run = [&invocation, arguments] { return run_train(*arguments, invocation); };
  });
}

}  // namespace whisker
