#include "train/resume.h"

#include "core/backend.h"
#include "core/io/text.h"
#include "train/checkpoint.h"

namespace whisker {
namespace {

void check_same_run(const TrainState& saved, const Experiment& experiment,
                    const RunFolder& folder) {
  const TrainState now = first_state(experiment);
  if (saved.data_fingerprint != now.data_fingerprint) {
    fail(ErrorKind::checkpoint,
         "{}: the training or validation data changed since this run stopped (files, sizes or "
         "labels). Start a new run with --init {}, or bring the old data back.",
         folder.path().string(), folder.best().string());
  }
  if (saved.preprocess != now.preprocess) {
    fail(ErrorKind::checkpoint,
         "{}: the preprocessing (vocabulary, scaling) is not the one this run was started with: {} "
         "then, {} now",
         folder.path().string(), excerpt(saved.preprocess), excerpt(now.preprocess));
  }
  const std::string changed = changed_on_resume(saved.config, experiment.config);
  if (changed.empty()) return;
  fail(ErrorKind::checkpoint,
       "{}: config.yaml is not the one this run was started with: {}. Put it back, or start a new "
       "run.",
       folder.path().string(), changed);
}

}  // namespace

TrainState first_state(const Experiment& experiment) {
  TrainState state;
  state.data_fingerprint = experiment.data.fingerprint;
  state.preprocess = experiment.network->signature().input_json();
  state.config = config_kept_on_resume(experiment.config);
  state.epochs = experiment.config.train.epochs;
  return state;
}

TrainState state_to_save(const TrainState& state, const Experiment& experiment) {
  TrainState saved = state;
  saved.plans = backend_of(experiment.device).export_plans();
  saved.jpeg_share = experiment.train->jpeg_share();
  saved.schedule = experiment.schedule->state();
  saved.ema_updates = experiment.average ? experiment.average->updates() : 0;
  return saved;
}

TrainState resume_run(RunFolder& folder, Experiment& experiment, CarriedStates& states) {
  const LoadedCheckpoint checkpoint = load_last(folder.last());
  const TrainState& state = checkpoint.state;
  check_same_run(state, experiment, folder);
  if (!state.plans.empty()) backend_of(experiment.device).import_plans(state.plans);
  const bool searches = !experiment.config.data.gpu_decode.value;  // a percentage stands as it is
  if (searches && state.jpeg_share >= 0 && state.jpeg_share <= 1) {
    experiment.train->set_jpeg_share(state.jpeg_share);
  }
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
  folder.metrics().truncate_to(state.metrics_bytes);
  return state;
}

}  // namespace whisker
