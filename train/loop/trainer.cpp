// The loop over epochs. TrainStep runs each batch; its results are read from the device after each
// batch on a host device, every log_every steps on a GPU, and always before saving. The observer is
// told after each batch, metrics.jsonl as well where a line is due: see trainer_events.cpp. What a
// validation changes is in trainer_validation.cpp, what the clock decides in trainer_plan.cpp.
#include "train/loop/trainer.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "train/loop/rank_sums.h"
#include "train/loop/resume.h"
#include "train/loop/step_histograms.h"
#include "train/metrics/evaluate.h"
#include "train/model/freeze_layers.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

std::string_view text_of(StepFailure failure) {
  switch (failure) {
    case StepFailure::none:
      break;
    case StepFailure::loss:
      return "the loss";
    case StepFailure::gradient:
      return "a gradient";
    case StepFailure::loss_scale:
      return "a gradient at every loss scale";
  }
  return "nothing";
}

}  // namespace

Trainer::Trainer(Experiment& experiment, RunFolder& folder, TrainObserver& observer,
                 const std::atomic<int>& stop, TrainStepOptions options)
    : experiment_(experiment),
      folder_(folder),
      observer_(observer),
      stop_(stop),
      log_(folder.writes() ? &folder.metrics() : nullptr),
      writer_(folder.last(), experiment.config.checkpoint.keep),
      step_(experiment, std::move(options)),
      profile_(step_, experiment.device, experiment.config.train.profile),
      state_(first_state(experiment)),
      batches_(experiment.batches_per_epoch()),
      plans_(experiment.config.train.time_budget_minutes > 0 && experiment.schedule->has_end()),
      pace_(step_.warm_up_batches() + experiment.config.data.prefetch),
      best_figure_(experiment.best_figure(*make_metrics(*experiment.network))),
      start_(Clock::now()) {
  if (folder.writes()) {  // later the data may be let go
    val_paths_ = experiment.data.val_paths();
    val_hashes_ = experiment.data.val_hashes;
  }
  for (BatchSource* source : {experiment.train.get(), experiment.val.get()}) {
    source->on_preparing([this](const Preparing& preparing) { prepare(preparing); });
  }
}

double Trainer::now() const {
  return state_.seconds + std::chrono::duration<double>(Clock::now() - start_).count();
}

void Trainer::resume() {
  CarriedStates states;
  state_ = resume_run(folder_, experiment_, states);
  step_.set_states(states_of_rank(states, experiment_.data.part));
  const Config& config = experiment_.config;
  const bool unfrozen =
      state_.epoch > config.unfreeze_at || (state_.epoch == config.unfreeze_at && state_.batch > 0);
  if (config.unfreeze_at > 0 && unfrozen) experiment_.unfreeze();
  const std::string change = follow_changes(TrainState(state_));
  check_best();
  if (state_.epoch >= config.train.epochs) {
    observer_.on_message(fmt::format(
        "nothing to do: {} of {} {} done. Ask for more with train.epochs=N", state_.epoch,
        counted(config.train.epochs, "epoch"), state_.epoch == 1 ? "is" : "are"));
  } else if (state_.batch == 0 && stalled()) {
    stop_reason_ = StopReason::early_stopping;
    observer_.on_message(
        fmt::format("nothing to do: stopped early, as {} did not improve in {}. Ask for more with "
                    "train.early_stopping.patience=N, above {}, or 0 for no end",
                    best_figure_.name, counted(state_.stalled, "validation"), state_.stalled));
  } else if (reached_plan()) {
    stop_reason_ = StopReason::planned;
    observer_.on_message(nothing_to_do());
  } else {
    observer_.on_message(
        fmt::format("continues at epoch {}, step {}", state_.epoch + 1, grouped(state_.step + 1)));
    if (!change.empty()) observer_.on_message(change);
  }
  if (experiment_.ranks->world() > 1) {
    observer_.on_message(
        fmt::format("the run goes on with its train.batch_size of {}, divided among {} ranks now",
                    config.train.batch_size, experiment_.ranks->world()));
  }
  state_.epochs = config.train.epochs;
  state_.restart = config.schedule.restart;
}

bool Trainer::is_done() const {
  return stop_reason_ || state_.epoch >= experiment_.config.train.epochs;
}

TrainResult Trainer::run() {
  const Config& config = experiment_.config;
  start_ = Clock::now();
  epoch_start_ = now();
  start_from_rank_0(experiment_);
  log_.begin_csv(folder_.path(), *make_metrics(*experiment_.network));
  if (config.train.tensorboard && !is_done()) {
    log_.begin_tensorboard(folder_.path(), state_.step, experiment_.data.val_images.get());
  }
  if (validate_first_) validate_last_epoch();
  while (!stop_reason_ && state_.epoch < config.train.epochs) {
    if (!run_epoch()) break;
  }
  if (profile_.trace()) write_trace();  // the run ends before its last traced batch
  const bool stopped = stop_reason_ && *stop_reason_ != StopReason::early_stopping;
  if (stopped && signal_ == 0 && state_.validated_step != state_.step) validate_at_stop();
  writer_.finish();
  tell_notes();
  return {.reason = stop_reason_.value_or(StopReason::finished),
          .signal = signal_,
          .epochs = state_.epoch,
          .steps = state_.step,
          .best_metric = state_.best_metric,
          .best_figure = best_figure_.name,
          .best_epoch = state_.best_epoch,
          .seconds = now(),
          .validation = validation_,
          .validation_epoch = validated_epoch_};
}

void Trainer::unfreeze() {
  experiment_.unfreeze();
  step_.forget_captures();
  pace_.restart();
  observer_.on_message(
      fmt::format("epoch {}: trained from here on: {}", state_.epoch + 1,
                  trained_layers(experiment_.arena->parameters(), TrainedFrom::unfreeze_at)));
}

// False when the run stops within the epoch; its state is saved then.
bool Trainer::run_epoch() {
  const Config& config = experiment_.config;
  batches_start_ = now();
  epoch_examples_ = epoch_batches_ = 0;
  waited_ = 0;
  rank_times_.reset();
  steady_ = epochs_run_ > 0;
  if (state_.batch == 0) {
    experiment_.schedule->begin_epoch(state_.epoch);
    if (state_.epoch == config.schedule.restart) planned_ = false;
    correct_plan();
  }
  if (state_.epoch == config.unfreeze_at && config.unfreeze_at > 0 && state_.batch == 0) {
    steady_ = false;
    unfreeze();
    experiment_.optimizer->restart();
  }
  step_.begin(epoch_totals());
  if (epoch_ahead_ != state_.epoch) experiment_.train->start_epoch(state_.epoch, state_.batch);
  pace_.begin_epoch(now());
  while (state_.batch < batches_) {
    profile_.before_batch(config.train.epochs * batches_ - batches_seen());
    const std::optional<Batch> batch = next_batch();
    if (!batch) break;
    ++state_.batch;
    const bool stepped = run_batch(*batch);
    if (profile_.after_batch()) write_trace();
    {
      const StageTimer timer(times_, Stage::logging);
      const StepEvent event = step_event();
      observer_.on_step(event);
      if (stepped && state_.step % config.train.log_every == 0) log_step(event);
    }
    if (!stepped) continue;
    const bool agree = experiment_.ranks->world() == 1 || !step_.late_reading() ||
                       state_.step % config.train.log_every == 0 || state_.batch == batches_;
    if (agree) hear_ranks();
    if (fits_ > 0) plan(fits_);
    if (state_.step == repeated_steps_ && state_.step < experiment_.schedule->end()) {
      stop_reason_ = StopReason::repeated;
    }
    if (reached_plan()) stop_reason_ = StopReason::planned;
    if (late_) stop_reason_ = StopReason::time_budget;
    if (signal_ != 0) stop_reason_ = StopReason::signal;
    const bool within = state_.batch < batches_ || stop_reason_ == StopReason::signal;
    const bool due = config.checkpoint.every > 0 && state_.step % config.checkpoint.every == 0;
    if (within && (due || stop_reason_)) {
      read_results(&*batch);
      save_last();
    }
    if (within && stop_reason_) return false;
  }
  read_results();
  return finish_epoch();
}

// All ranks stop after the same step.
void Trainer::hear_ranks() {
  struct Heard {
    int signal;
    bool late;
    int64_t fits;
    RankSeconds seconds;
  };
  const auto all = experiment_.ranks->group().gather(
      Heard{.signal = stop_.load(),
            .late = late(),
            .fits = first_plan(),
            .seconds = {.worked = times_[Stage::data_wait] + times_[Stage::step] - waited_,
                        .waited = waited_}});
  late_ = all[0].late;
  fits_ = all[0].fits;
  std::vector<RankSeconds> seconds;
  for (const Heard& one : all) {
    if (signal_ == 0) signal_ = one.signal;
    seconds.push_back(one.seconds);
  }
  if (all.size() > 1) rank_times_ = compare_ranks(seconds);
}

// A GPU's loader may also wait for the GPU, which is no waiting for data.
std::optional<Batch> Trainer::next_batch() {
  BatchSource& source = *experiment_.train;
  const double before = source.stats().wait_seconds;
  std::optional<Batch> batch;
  {
    const StageTimer timer(times_, Stage::step);
    const StepTrace::Range range(profile_.trace(), "next batch", "loader");
    batch = source.next();
  }
  const double waited = source.stats().wait_seconds - before;
  times_[Stage::step] -= waited;
  times_[Stage::data_wait] += waited;
  return batch;
}

void Trainer::write_trace() {
  const int rank = experiment_.ranks->rank();
  if (rank != 0 && !folder_.reachable()) return profile_.stop();
  const std::string name = rank == 0 ? "trace.json" : fmt::format("trace.rank{}.json", rank);
  observer_.on_message(profile_.write(folder_.path() / name));
}

// Whether it ended in an optimizer step.
bool Trainer::run_batch(const Batch& batch) {
  const StageTimer timer(times_, Stage::step);
  if (batch.first_layer > 0) steady_ = false;
  epoch_examples_ += batch.whole_size();
  ++epoch_batches_;
  BatchPlace place{.number = batches_seen(),
                   .learning_rate = experiment_.schedule->at(state_.step),
                   .last_of_epoch = state_.batch == batches_};
  place.eager = records_histograms(place);
  std::optional<StepHistograms> histograms;
  if (place.eager && folder_.writes() && !gave_up_histograms_) histograms.emplace(experiment_);
  const bool stepped = step_.run(batch, place);
  if (histograms) {
    HistogramRow row = histograms->finish();
    row.step = state_.step + 1;
    row.epoch = state_.epoch + 1;
    row.examples = batch.size();
    histograms.reset();
    write_histograms(row);
    log_.histograms(row);
  }
  pace_.count_batch();
  if (stepped) {
    ++state_.step;
    // A GPU that is behind takes as long as in the last step of which it is known.
    if (const double wait = experiment_.ranks->waited_seconds(); wait > 0) last_wait_ = wait;
    waited_ += last_wait_;
  }
  const bool due = stepped && state_.step % experiment_.config.train.log_every == 0;
  if (due || !step_.late_reading()) read_results(&batch);
  return stepped;
}

// The first step and every histogram_every-th one after it, by its last batch.
bool Trainer::records_histograms(const BatchPlace& place) {
  const int64_t every = experiment_.config.train.histogram_every;
  if (every == 0 || state_.step % every != 0 || !step_.ends_update(place)) return false;
  if (!profile_.trace()) return true;
  if (!std::exchange(said_unrecorded_, true)) {
    observer_.on_message(
        fmt::format("train.histogram_every: step {} and others that train.profile times are not in "
                    "histograms.jsonl",
                    state_.step + 1));
  }
  return false;
}

void Trainer::write_histograms(const HistogramRow& row) {
  try {
    folder_.histograms().append(row.json() + "\n");
  } catch (const Error& error) {
    gave_up_histograms_ = true;
    observer_.on_message(fmt::format(
        "{} The run goes on, and histograms.jsonl ends before step {}.", error.what(), row.step));
  }
}

// Waits for the device. `at_hand` is the last batch that ran.
void Trainer::read_results(const Batch* at_hand) {
  const StepState results = of_all_ranks(step_.read(), experiment_.ranks->group());
  pace_.mark(now());
  state_.loss_sum = results.totals.loss;
  state_.correct = results.totals.correct;
  state_.rows = results.totals.rows;
  gradient_norm_.reset();
  if (std::isfinite(results.gradient_norm)) gradient_norm_ = results.gradient_norm;
  state_.updates = results.steps;
  state_.loss_scale = {.value = results.loss_scale,
                       .good_steps = results.good_steps,
                       .skipped_in_row = results.skipped_in_row};
  if (results.failure == StepFailure::none) return;
  const int64_t failed = results.failed_batch;
  const Batch* same = failed == batches_seen() ? at_hand : nullptr;
  Culprit culprit;
  try {
    culprit = find_culprit(experiment_, failed, same, step_.states());
  } catch (const std::exception& error) {  // memory ran out, or the data are gone
    culprit.text = fmt::format("a step that could not be run again ({})", error.what());
  }
  diverged(failed, text_of(results.failure), culprit);
}

void Trainer::diverged(int64_t batch, std::string_view what, const Culprit& culprit) {
  writer_.finish();
  const int64_t accumulate = experiment_.config.train.accumulate;
  const int64_t before = std::max<int64_t>(batch, 1) - 1;  // batches before this one
  const int64_t epoch = before / batches_;
  const int64_t step =
      epoch * ((batches_ + accumulate - 1) / accumulate) + before % batches_ / accumulate;
  const bool saved = std::filesystem::exists(folder_.best()) ||
                     std::filesystem::exists(folder_.last() / "state.json");
  const std::string path = folder_.path().string();
  keep_step({.what = std::string(what),
             .found = culprit.text,
             .epoch = epoch + 1,
             .step = step + 1,
             .batch = culprit.batch ? culprit.number : batch},
            culprit);
  fail(ErrorKind::diverged,
       "training diverged at epoch {}, step {}: {} is NaN or Inf; first seen in {}. {} Lower "
       "optimizer.lr, or set optimizer.clip_norm: 1.",
       epoch + 1, step + 1, what, culprit.text,
       saved ? fmt::format("What {} holds is from before that.", path)
             : fmt::format("No weights were saved in {} before.", path));
}

// Keeps the step for `study nan`. What cannot be kept does not hide the error that follows.
void Trainer::keep_step(const FailedStep& failed, const Culprit& culprit) {
  const std::string path = folder_.path().string();
  try {
    if (!folder_.writes() && !folder_.reachable()) {
      fail(ErrorKind::disk, "this rank cannot write to the run folder");
    }
    FailedStep step = failed;
    const float scale = step_.read().loss_scale;
    if (std::isfinite(scale) && scale > 0) step.loss_scale = scale;
    const uint64_t bytes =
        keep_failed_step(folder_.failed_step(), experiment_, step, culprit.batch, culprit.states);
    observer_.on_message(fmt::format(
        "kept the step that failed in {} ({}): whisker study nan {} shows where it "
        "began",
        printable(folder_.failed_step().string()), human_bytes(bytes), printable(path)));
  } catch (const std::exception& error) {
    observer_.on_message(
        fmt::format("the step that failed is not kept for study nan: {}", error.what()));
  }
}

// A finite gradient at a huge rate can still give infinite weights: nothing is saved unseen.
void Trainer::check_finite(const Snapshot& snapshot) {
  const std::string name = first_non_finite(snapshot);
  if (name.empty()) return;
  diverged(batches_seen(), "a tensor about to be saved",
           {.text = saved_tensor_text(*experiment_.arena, name)});
}

// False when a signal came during validation: the state saved is that of the epoch's last step, so
// that a resume validates again.
bool Trainer::finish_epoch() {
  const Config& config = experiment_.config;
  const StepEvent ended = step_event();
  const double begin = now();
  prepared_ = 0;
  EpochEvent event{.epoch = state_.epoch,
                   .epochs = ended.epochs,
                   .learning_rate = ended.learning_rate,
                   .train_loss = ended.epoch_loss.value_or(0),
                   .train_accuracy = ended.epoch_accuracy};
  const bool last = state_.epoch + 1 == config.train.epochs || stop_reason_ == StopReason::planned;
  if (!last && !stop_reason_) {  // its first batches are made while validation runs
    epoch_ahead_ = state_.epoch + 1;
    experiment_.train->start_epoch(epoch_ahead_);
  }
  if (last || (state_.epoch + 1) % config.train.validate_every == 0) {
    const std::shared_ptr<const Metrics> metrics = validate();
    if (signal_ != 0) {
      stop_reason_ = StopReason::signal;
      save_last();
      return false;
    }
    event.val_loss = metrics->loss();
    event.val_figures = metrics->figures();
    event.best = take_best(metrics);
    event.best_by = best_figure_.label();
    count_stalled(experiment_.best_figure(*metrics).value);
  }

  ++state_.epoch;
  state_.batch = 0;
  reset_totals();
  const bool goes_on = !stop_reason_ || *stop_reason_ == StopReason::repeated;
  if (goes_on && !last && stalled()) stop_reason_ = StopReason::early_stopping;
  event.steady = steady_;
  ++epochs_run_;
  report(std::move(event));
  const bool due = config.checkpoint.every == 0 || state_.step % config.checkpoint.every == 0;
  if (due || last || stop_reason_) save_last();
  if (after_epoch_ && folder_.writes()) writer_.after_saving(after_epoch_);
  pace_.add_between_epochs(now() - begin - prepared_);
  return true;
}

void Trainer::save_last() {
  const StageTimer timer(times_, Stage::checkpoint);
  const CarriedStates states = states_of_all_ranks(step_.states(), experiment_.ranks->group());
  if (!folder_.writes()) return;
  Snapshot model = state_dict(*experiment_.arena, batches_tracked());
  Snapshot optimizer =
      snapshot_optimizer(*experiment_.arena, *experiment_.optimizer, experiment_.average.get());
  check_finite(model);
  check_finite(optimizer);
  add_states(states, optimizer);
  add_image_stamps(experiment_, stop_reason_.has_value(), optimizer);
  TrainState state = state_to_save(state_, experiment_);
  state.seconds = now();
  folder_.metrics().sync();
  state.metrics_bytes = folder_.metrics().offset();
  state.histogram_bytes = folder_.sync_histograms();
  writer_.save_last(std::move(model), std::move(optimizer), state);
}

}  // namespace whisker
