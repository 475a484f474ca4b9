// The loop. Note [Order of a step]: forward, finite loss, backward, finite norm, optimizer, buffers,
// average. Nothing is changed before both checks passed, so no NaN ever reaches a checkpoint.
#include "train/trainer.h"

#include <cmath>

#include "core/io/json.h"
#include "train/evaluate.h"
#include "train/find_non_finite.h"

namespace whisker {
namespace {

using Clock = std::chrono::steady_clock;

// Rows whose largest probability is the label's. Costs a copy of (N, classes) to the host.
int64_t count_correct(const Classifier& classifier, const Tensor& logits, const Batch& batch) {
  const NoGrad no_grad;
  ClassificationMetrics metrics(static_cast<int64_t>(classifier.classes().size()));
  add_predictions(metrics, classifier, logits, batch);
  return metrics.correct();
}

}  // namespace

Trainer::Trainer(Experiment& experiment, RunFolder& folder, TrainObserver& observer,
                 const std::atomic<int>& stop)
    : experiment_(experiment),
      folder_(folder),
      observer_(observer),
      stop_(stop),
      writer_(folder.last(), experiment.config.checkpoint.keep),
      batches_(experiment.batches_per_epoch()),
      start_(Clock::now()) {
  state_.data_fingerprint = experiment.data_fingerprint;
  state_.preprocess = experiment.classifier->preprocess().json();
}

double Trainer::now() const {
  return state_.seconds + std::chrono::duration<double>(Clock::now() - start_).count();
}

void Trainer::resume() {
  const LoadedCheckpoint checkpoint = load_last(folder_.last());
  if (checkpoint.state.data_fingerprint != state_.data_fingerprint) {
    fail(ErrorKind::checkpoint,
         "{}: the training data changed since this run stopped (files, sizes or labels). Start a new "
         "run with --init {}, or bring the old data back.",
         folder_.path().string(), folder_.best().string());
  }
  if (checkpoint.state.preprocess != state_.preprocess) {
    fail(ErrorKind::checkpoint,
         "{}: the preprocessing in config.yaml is not the one this run was started with: {} then, {} "
         "now",
         folder_.path().string(), checkpoint.state.preprocess, state_.preprocess);
  }
  restore(checkpoint, *experiment_.arena, *experiment_.optimizer, experiment_.average.get());
  state_ = checkpoint.state;
  experiment_.schedule->restore(state_.schedule);
  experiment_.optimizer->set_steps(state_.step);
  folder_.metrics().truncate_to(state_.metrics_bytes);
}

TrainResult Trainer::run() {
  const Config& config = experiment_.config;
  start_ = Clock::now();
  while (!stop_reason_ && state_.epoch < config.train.epochs) {
    if (!run_epoch()) break;
  }
  const StageTimer timer(times_, Stage::checkpoint);
  writer_.finish();
  return {.reason = stop_reason_.value_or(StopReason::finished),
          .epochs = state_.epoch,
          .steps = state_.step,
          .best_metric = state_.best_metric,
          .best_epoch = state_.best_epoch,
          .seconds = now(),
          .validation = validation_};
}

// False when the run stops within the epoch; its state is saved then.
bool Trainer::run_epoch() {
  const Config& config = experiment_.config;
  times_ = {};
  epoch_start_ = now();
  epoch_pictures_ = 0;
  pending_batches_ = 0;
  experiment_.arena->zero_grad();
  experiment_.train->start_epoch(state_.epoch, state_.batch);
  while (state_.batch < batches_) {
    std::optional<Batch> batch;
    {
      const StageTimer timer(times_, Stage::data_wait);
      batch = experiment_.train->next();
    }
    if (!batch) break;
    ++state_.batch;
    {
      const StageTimer timer(times_, Stage::step);
      run_step(*batch, state_.batch == batches_);
    }
    const bool stepped = pending_batches_ == 0;
    const StepEvent event = step_event(state_.batch);
    observer_.on_step(event);
    if (stepped && state_.step % config.train.log_every == 0) log_step(event);
    if (!stepped) continue;
    if (stop_.load() != 0) stop_reason_ = StopReason::signal;
    const double budget = config.train.time_budget_minutes * 60;
    if (budget > 0 && now() >= budget) stop_reason_ = StopReason::time_budget;
    const bool due = config.checkpoint.every > 0 && state_.step % config.checkpoint.every == 0;
    if (state_.batch < batches_ && (due || stop_reason_)) save_last();
    if (stop_reason_ && state_.batch < batches_) return false;
  }
  finish_epoch();
  return true;
}

void Trainer::run_step(const Batch& batch, bool last_of_epoch) {
  const Config& config = experiment_.config;
  Classifier& classifier = *experiment_.classifier;
  const Pass pass{.training = true,
                  .seed = static_cast<uint64_t>(config.seed),
                  .step = static_cast<uint64_t>(state_.epoch * batches_ + state_.batch)};
  const Tensor logits = classifier.logits(batch.images, pass);
  const Tensor loss = experiment_.objective->loss(logits, batch);
  const double value = loss.item();
  if (!std::isfinite(value)) diverged(batch, "the loss");
  backward(loss);
  ++pending_batches_;

  const auto pictures = batch.size();
  state_.loss_sum += value * static_cast<double>(pictures);
  state_.correct += count_correct(classifier, logits, batch);
  state_.pictures += pictures;
  epoch_pictures_ += pictures;

  if (pending_batches_ < config.train.accumulate && !last_of_epoch) return;
  const double rate = experiment_.schedule->at(state_.step);
  const StepReport report =
      experiment_.optimizer->step(rate, 1.0 / static_cast<double>(pending_batches_));
  gradient_norm_ = report.gradient_norm;
  if (!report.finite) diverged(batch, "a gradient");
  experiment_.arena->commit_buffers();
  if (experiment_.average) experiment_.average->update();
  experiment_.arena->zero_grad();
  pending_batches_ = 0;
  ++state_.step;
}

void Trainer::diverged(const Batch& batch, const char* what) {
  const std::string culprit = find_non_finite(experiment_, batch);
  writer_.finish();
  fail(ErrorKind::diverged,
       "training diverged at epoch {}, step {}: {} is NaN or Inf; first seen in {}. Nothing was "
       "changed by this step; {} holds the last good weights. Lower optimizer.lr, or set "
       "optimizer.clip_norm: 1.",
       state_.epoch + 1, state_.step + 1, what, culprit, folder_.path().string());
}

StepEvent Trainer::step_event(int64_t batch) const {
  const double seconds = now() - epoch_start_;
  const auto pictures = static_cast<double>(std::max<int64_t>(1, state_.pictures));
  const double done = static_cast<double>(epoch_pictures_);
  return {.epoch = state_.epoch,
          .batch = batch,
          .batches = batches_,
          .step = state_.step,
          .loss = state_.loss_sum / pictures,
          .accuracy = static_cast<double>(state_.correct) / pictures,
          .learning_rate = experiment_.schedule->at(std::max<int64_t>(0, state_.step - 1)),
          .gradient_norm = gradient_norm_,
          .images_per_s = done / std::max(seconds, 1e-9),
          .wait_share = times_[Stage::data_wait] / std::max(seconds, 1e-9),
          .seconds_left = done > 0 ? seconds / done * static_cast<double>(batches_ - batch) *
                                         static_cast<double>(experiment_.config.train.batch_size)
                                   : 0};
}

void Trainer::write_metrics(const JsonWriter& json) { folder_.metrics().append(json.str() + "\n"); }

void Trainer::log_step(const StepEvent& event) {
  const StageTimer timer(times_, Stage::logging);
  JsonWriter json;
  json.begin_object().field("kind", "step").field("step", event.step).field("epoch", event.epoch + 1);
  json.field("loss", event.loss).field("accuracy", event.accuracy);
  json.field("learning_rate", event.learning_rate).field("gradient_norm", event.gradient_norm);
  json.field("images_per_s", event.images_per_s).field("seconds", now()).end_object();
  write_metrics(json);
}

void Trainer::validate(EpochEvent& event) {
  const Config& config = experiment_.config;
  const StageTimer timer(times_, Stage::validation);
  const AverageScope averaged(experiment_.average.get());
  const ClassificationMetrics metrics = evaluate(*experiment_.classifier, *experiment_.objective, *experiment_.val);
  validation_ = metrics;
  event.val_loss = metrics.loss();
  event.val_accuracy = metrics.accuracy();

  const bool by_accuracy = config.train.metric == MetricKind::accuracy;
  const double metric = by_accuracy ? metrics.accuracy() : metrics.loss();
  const double margin = config.train.early_stopping.min_delta;
  const bool better = state_.best_epoch < 0 || (by_accuracy ? metric > state_.best_metric + margin
                                                            : metric < state_.best_metric - margin);
  experiment_.schedule->observe(metric);
  if (!better) {
    ++state_.stalled;
    return;
  }
  event.best = true;
  state_.best_metric = metric;
  state_.best_epoch = state_.epoch;
  state_.stalled = 0;
  JsonWriter json;
  json.begin_object();
  metrics.write(json, experiment_.classifier->classes());
  json.end_object();
  writer_.save_best(folder_.best(), state_dict(*experiment_.arena, state_.step),
                    experiment_.weights_info(state_.epoch + 1, json.str()).to_metadata());
}

void Trainer::finish_epoch() {
  const Config& config = experiment_.config;
  const auto pictures = static_cast<double>(std::max<int64_t>(1, state_.pictures));
  EpochEvent event{.epoch = state_.epoch,
                   .epochs = config.train.epochs,
                   .train_loss = state_.loss_sum / pictures,
                   .train_accuracy = static_cast<double>(state_.correct) / pictures};
  const bool last = state_.epoch + 1 == config.train.epochs || stop_reason_;
  if (last || (state_.epoch + 1) % config.train.validate_every == 0) validate(event);

  ++state_.epoch;
  state_.batch = 0;
  state_.loss_sum = 0;
  state_.correct = state_.pictures = 0;
  const int64_t patience = config.train.early_stopping.patience;
  if (!stop_reason_ && patience > 0 && state_.stalled >= patience) {
    stop_reason_ = StopReason::early_stopping;
  }

  event.seconds = now() - epoch_start_;
  event.times = times_;
  JsonWriter json;
  json.begin_object().field("kind", "epoch").field("epoch", event.epoch + 1);
  json.field("step", state_.step).field("train_loss", event.train_loss);
  json.field("train_accuracy", event.train_accuracy);
  if (event.val_loss) {
    json.field("val_loss", *event.val_loss).field("val_accuracy", *event.val_accuracy);
    json.field("best", event.best);
  }
  json.field("seconds", now()).key("time").begin_object();
  for (size_t i = 0; i < stage_names.size(); ++i) json.field(stage_names[i], times_.seconds[i]);
  json.end_object().end_object();
  write_metrics(json);
  observer_.on_epoch(event);
  if (config.checkpoint.every == 0 || last || stop_reason_) save_last();
}

void Trainer::save_last() {
  const StageTimer timer(times_, Stage::checkpoint);
  TrainState state = state_;
  state.seconds = now();
  state.schedule = experiment_.schedule->state();
  state.ema_updates = experiment_.average ? experiment_.average->updates() : 0;
  folder_.metrics().sync();
  state.metrics_bytes = folder_.metrics().offset();
  writer_.save_last(state_dict(*experiment_.arena, state_.step),
                    snapshot_optimizer(*experiment_.arena, *experiment_.optimizer,
                                       experiment_.average.get()),
                    state);
}

}  // namespace whisker
