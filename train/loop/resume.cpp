#include "train/loop/resume.h"

#include "core/backend/backend.h"
#include "core/backend/recurrent_operands.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/images/image_dataset.h"
#include "train/loop/repeat.h"

#include <algorithm>
#include <cstring>

namespace whisker {
namespace {

constexpr double most_seconds = 5;  // of reading before a checkpoint: a signal's takes less than 20

/// The sets of images and their entries in the optimizer's file; none for other data.
std::vector<std::pair<const char*, ImageDataset*>> image_sets(const Experiment& experiment) {
  const RunData& data = experiment.data;
  if (!data.train_images) return {};
  return {{"data.train", data.train_images.get()}, {"data.val", data.val_images.get()}};
}

/// Images with another content than in the run; copies the run's hashes of the others.
std::vector<std::string> changed_images(const SafetensorsFile& file, const Experiment& experiment) {
  std::vector<std::string> changed;
  for (const auto& [name, set] : image_sets(experiment)) {
    const SafetensorsTensor* const stored = file.find(name);
    if (!stored) continue;  // of a version that compared paths, sizes and labels only
    std::vector<FileStamp> before(static_cast<size_t>(set->size()));
    if (stored->bytes.size() != std::as_bytes(std::span(before)).size()) {
      fail(ErrorKind::checkpoint, "{}: expected {} of {} images, got {} bytes.", file.name(), name,
           before.size(), stored->bytes.size());
    }
    std::memcpy(before.data(), stored->bytes.data(), stored->bytes.size());
    for (std::string& path : set->stamps().changed_since(before, set->options().workers)) {
      changed.push_back(std::move(path));
    }
    set->stamps().set(before);
  }
  return changed;
}

void check_same_run(const LoadedCheckpoint& checkpoint, const Experiment& experiment,
                    const RunFolder& folder) {
  const TrainState& saved = checkpoint.state;
  const TrainState now = first_state(experiment);
  if (saved.data_fingerprint != now.data_fingerprint) {
    fail(ErrorKind::checkpoint,
         "{}: the training or validation data changed since this run stopped (files, sizes or "
         "labels){}. Restore the old data, or {}.",
         printable(folder.path().string()),
         checkpoint.optimizer.find("data.train") || !experiment.data.train_images
             ? ""
             : ", or an earlier Whisker listed or split them differently (WebP, GIF, copies)",
         new_run_remedy(folder.path()));
  }
  const std::vector<std::string> other = changed_images(checkpoint.optimizer, experiment);
  if (!other.empty()) {
    fail(ErrorKind::checkpoint,
         "{}: the training or validation data changed since this run stopped: another content, of "
         "the same size, in {}. Restore the old data, or {}.",
         printable(folder.path().string()), quoted_list(other), new_run_remedy(folder.path()));
  }
  if (!experiment.network->signature().has_input(saved.preprocess)) {
    fail(ErrorKind::checkpoint,
         "{}: the preprocessing (vocabulary, scaling) is not the one this run was started with: {} "
         "then, {} now. Restore it, or {}.",
         printable(folder.path().string()), excerpt(saved.preprocess), excerpt(now.preprocess),
         new_run_remedy(folder.path()));
  }
  const std::string changed = changed_on_resume(saved.config, experiment.config);
  if (!changed.empty()) {
    fail(ErrorKind::checkpoint,
         "{}: config.yaml is not the one this run was started with: {}. Restore it, or {}.",
         printable(folder.path().string()), changed, new_run_remedy(folder.path()));
  }
  const int64_t batches = experiment.batches_per_epoch();
  if (saved.batch > batches || saved.step > saved.epoch * batches + saved.batch) {
    fail(ErrorKind::checkpoint,
         "{}/state.json: batch {} and step {} in epoch {} cannot be: an epoch has {} batches. The "
         "file was changed: {}.",
         printable(folder.last().string()), saved.batch, saved.step, saved.epoch, batches,
         new_run_remedy(folder.path()));
  }
}

// "it begins at 0.0025, is at most 0.01 and ends at 4e-06", of `steps` after the first `done`.
std::string course(const Schedule& schedule, int64_t done, int64_t steps) {
  constexpr int64_t samples = 1000;  // three digits of the largest
  double most = schedule.at(done);
  for (int64_t i = 1; i <= samples; ++i) {
    most = std::max(most, schedule.at(done + (steps - 1) * i / samples));
  }
  return fmt::format("it begins at {:.3g}, is at most {:.3g} and ends at {:.3g}", schedule.at(done),
                     most, schedule.at(done + steps - 1));
}

}  // namespace

void import_choices(const TrainState& state, Experiment& experiment) {
  if (!state.plans.empty()) backend_of(experiment.device).import_algorithms(state.plans);
  const bool chosen = !experiment.config.data.gpu_decode.value;  // a percentage stands as it is
  if (chosen && state.jpeg_share >= 0 && state.jpeg_share <= 1) {
    experiment.train->set_jpeg_share(state.jpeg_share);
  }
}

TrainState first_state(const Experiment& experiment) {
  TrainState state;
  state.data_fingerprint = experiment.data.fingerprint;
  state.preprocess = experiment.network->signature().input_json();
  state.config = config_kept_on_resume(experiment.config);
  state.epochs = experiment.config.train.epochs;
  state.restart = experiment.config.schedule.restart;
  state.time_budget = experiment.config.train.time_budget_minutes;
  state.environment = environment_of(experiment);
  state.initial_batches = experiment.initial_batches;
  return state;
}

TrainState state_to_save(const TrainState& state, const Experiment& experiment) {
  TrainState saved = state;
  saved.plans = backend_of(experiment.device).export_algorithms();
  saved.jpeg_share = experiment.train->jpeg_share();
  saved.schedule = experiment.schedule->state();
  std::erase_if(saved.schedule.planned,  // of a run that is repeated, what is still to come
                [&](const auto& planned) { return planned.step > state.step; });
  saved.ema_updates = experiment.average ? experiment.average->updates() : 0;
  return saved;
}

void add_image_stamps(const Experiment& experiment, bool stops, Snapshot& snapshot) {
  for (const auto& [name, set] : image_sets(experiment)) {
    if (stops) set->stamps().read_rest(set->options().workers, most_seconds);
    const std::vector<FileStamp> stamps = set->stamps().get();
    const auto bytes = std::as_bytes(std::span(stamps));
    snapshot.push_back({.name = name,
                        .dtype = DType::i64,
                        .shape = {stamps.size(), 2},
                        .bytes = {bytes.begin(), bytes.end()}});
  }
}

TrainState resume_run(RunFolder& folder, Experiment& experiment, CarriedStates& states) {
  const LoadedCheckpoint checkpoint = load_last(folder.last());
  const TrainState& state = checkpoint.state;
  check_same_run(checkpoint, experiment, folder);
  import_choices(state, experiment);
  restore(checkpoint, *experiment.arena, *experiment.optimizer, experiment.average.get());
  experiment.schedule->restore(state.schedule);
  StepMemory& memory = experiment.optimizer->memory();
  StepState step = memory.read();
  step.steps = state.updates;
  step.loss_scale = state.loss_scale.value;
  step.good_steps = state.loss_scale.good_steps;
  step.skipped_in_row = state.loss_scale.skipped_in_row;
  memory.write(step);
  states = restore_states(checkpoint.optimizer, experiment.device);
  if (folder.writes()) {
    folder.metrics().truncate_to(state.metrics_bytes);
    folder.cut_histograms(state.histogram_bytes);
  }
  return state;
}

std::string schedule_change(const Config& config, const Schedule& schedule,
                            const TrainState& saved) {
  const int64_t epochs = config.train.epochs, restart = config.schedule.restart;
  const int64_t left = schedule.steps(epochs) - saved.step;
  if (!schedule.has_end() || saved.step == 0 || left <= 0) return "";
  std::string text;
  if (saved.epochs != epochs) {
    text = fmt::format("train.epochs was {} and is {} now", saved.epochs, epochs);
  }
  if (saved.restart != restart) {
    text += fmt::format("{}schedule.restart was {} and is {} now", text.empty() ? "" : ", ",
                        saved.restart, restart);
  }
  if (text.empty() && !saved.schedule.planned.empty() && schedule.state().planned.empty()) {
    text = fmt::format("train.time_budget_minutes was {} and is {} now", saved.time_budget,
                       config.train.time_budget_minutes);
  }
  if (text.empty()) return "";
  Schedule before = schedule.over(saved.epochs, saved.restart);
  before.restore(saved.schedule);
  text += fmt::format(": the learning rate was {:.3g} in the last step; now {}.",
                      before.at(saved.step - 1), course(schedule, saved.step, left));
  if (saved.epoch == 0 || restart == saved.epoch) return text;
  return text +
         fmt::format(" To start the schedule again over the {}, give schedule.restart={}: {}.",
                     counted(epochs - saved.epoch, "epoch that remains", "epochs that remain"),
                     saved.epoch, course(schedule.over(epochs, saved.epoch), saved.step, left));
}

}  // namespace whisker
