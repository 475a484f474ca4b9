#include "apps/commands/train_run.h"

#include "apps/terminal/loss_curves.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/start_report.h"
#include "apps/terminal/terminal.h"
#include "core/backend/memory_summary.h"
#include "core/io/atomic_file.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/images/split_list.h"
#include "train/data/copies.h"
#include "train/data/validation_overlap.h"
#include "train/device/autotune_cache.h"
#include "train/inference/test_set.h"
#include "train/loop/trainer.h"
#include "train/planning/memory_advice.h"
#include "train/report/report_examples.h"
#include "train/report/report_writer.h"
#include "train/report/run_report.h"

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace whisker {
namespace {

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

// Drawn where the locale can show it, in the log always. No damaged line is worth the run.
void show_losses(const RunFolder& folder, Progress& progress) {
  std::ifstream metrics(folder.path() / "metrics.jsonl");
  try {
    const auto columns = static_cast<size_t>(terminal_width(stderr));
    const std::string curves = loss_curves(metrics, columns);
    if (curves.empty()) return;
    locale_is_utf8() ? progress.on_message(curves) : progress.on_detail(curves);
  } catch (const Error& error) {
    progress.on_detail(error.what());
  }
}

void measure_test(const Experiment& experiment, RunFolder& folder, int64_t best_epoch,
                  Progress& progress) {
  Config own = experiment.config;  // rank 0 measures alone
  own.train.batch_size = std::max<int64_t>(1, own.train.batch_size / experiment.ranks->world());
  const TestResult result =
      measure_test_set(own, folder.best(), experiment.device, experiment.arena->compute_dtype());
  const std::unique_ptr<Metrics>& test = result.metrics;
  for (const std::string& line : result.bad) progress.on_message("data.test: " + line);
  const MeasuredPart part = test_part(content_name(experiment.network->signature()));
  for (const auto& [kind, contents] : {std::pair{"training", &experiment.data.train_contents},
                                       {"validation", &experiment.data.val_contents}}) {
    const SharedImages shared = find_shared(result.contents, *contents, [&](int64_t i) {
      return result.examples.empty() ? "" : result.examples[static_cast<size_t>(i)].place;
    });
    const std::string note = shared_note(shared, std::ssize(result.contents), part, kind);
    if (!note.empty()) progress.on_message(note);
  }
  progress.on_message(fmt::format("test: {} {}  {}",
                                  own.data.kind == DataKind::images ? "images" : "examples",
                                  test->count(), test->line()));
  JsonWriter json(NonFinite::null);
  json.begin_object().field("kind", "test").field("data", own.data.test);
  json.field("epoch", best_epoch + 1);
  test->write(json);
  folder.metrics().append(json.end_object().str() + "\n");
}

}  // namespace

int train_in(Experiment& experiment, RunFolder& folder, bool resume, const Invocation& invocation,
             const Recorded* recorded) {
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
  progress.on_detail(
      fmt::format("{} {}", resume ? "resumed" : "began", local_time_text(std::time(nullptr))));
  progress.on_detail(fmt::format("data and network ready {:.2f} s after the program started",
                                 seconds_since_process_start()));

  std::optional<ReportWriter> report;
  if (folder.writes() && config.train.report) report.emplace(folder.path());
  Trainer trainer(experiment, folder, progress, stop);
  if (report) trainer.after_epochs([&report] { report->update(); });
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
  if (folder.writes()) {
    for (const std::string& line : save_algorithms(experiment.device)) progress.on_message(line);
  }
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
  if (folder.writes()) show_losses(folder, progress);
  folder.log(to_text(memory_summary(experiment.device), experiment.device));
  progress.on_message(closing_line(result));
  if (result.reason == StopReason::signal) {
    progress.on_message(
        fmt::format("continue with: whisker train --resume {}", printable(folder.path().string())));
  }
  if (report) {
    const auto add_examples = [&] {
      write_report_examples(folder.path(), {.config = config,
                                            .images = images,
                                            .training = experiment.data.train_images.get(),
                                            .seconds = result.seconds});
    };
    progress.on_message(result.reason == StopReason::signal ? report->finish()
                                                            : report->finish(add_examples));
  }
  int code = exit_code_of(result);
  if (recorded && code == 0 && folder.writes()) {
    code = compare_with(*recorded, folder, config, experiment.device, progress);
  }
  folder.close();
  if (experiment.ranks->rank() == 0) print_result(printable(folder.path().string()) + "\n");
  return code;
}

int logged(RunFolder& folder, const std::function<int()>& work) {
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
      const std::filesystem::path report = folder.path() / "report.html";
      if (folder.writes() && std::filesystem::exists(report, unknown)) {
        write_run_report(folder.path(), report);
      }
    } catch (const std::exception&) {
      // The disk may be what the error is about, which is said in any case.
    }
    throw;
  }
}

}  // namespace whisker
