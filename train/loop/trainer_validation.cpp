// After a validation: best weights, early stopping, plateau schedule.
#include "core/io/json.h"
#include "core/io/text.h"
#include "train/loop/average_statistics.h"
#include "train/loop/best_weights.h"
#include "train/loop/find_non_finite.h"
#include "train/loop/rank_sums.h"
#include "train/loop/trainer.h"
#include "train/metrics/evaluate.h"
#include "train/metrics/score_curve.h"

#include <cmath>
#include <functional>
#include <utility>

namespace whisker {

std::shared_ptr<const Metrics> Trainer::validate() {
  const StageTimer timer(times_, Stage::validation);
  if (experiment_.average) experiment_.average->copy_buffers();
  const AverageScope averaged(experiment_.average.get());
  if (experiment_.average) measure_average();
  take_buffers_of_rank_0(experiment_);
  EvaluateOptions options{.stop = &stop_};
  const Signature& signature = experiment_.network->signature();
  if (signature.task() != Task::language_model) {
    const bool ranked_are_all = signature.classes.size() <= 5;
    examples_.emplace(signature, experiment_.data.val_size,
                      ranked_are_all ? 0 : most_scores_of_run);
    options.observe = [&](const Tensor& outputs, const Batch& batch) {
      examples_->add(outputs, batch);
    };
  }
  std::shared_ptr<Metrics> metrics =
      evaluate(*experiment_.network, *experiment_.objective, *experiment_.val, options);
  add_other_ranks(*metrics, experiment_.ranks->group());
  hear_ranks();
  if (!std::isfinite(metrics->loss())) {
    RankGroup& ranks = experiment_.ranks->group();
    if (!ranks.leads()) ranks.barrier();  // rank 0's error ends this one
    const std::string weights = find_non_finite_weights(experiment_);
    diverged(batches_seen(), "the validation loss",
             {.text = weights.empty() ? "the network's outputs there" : weights});
  }
  return metrics;
}

// Measures the average with data of the epoch that follows, whose batches are made again after
// this.
void Trainer::measure_average() {
  const bool measured = measure_statistics(experiment_, step_, state_.epoch + 1, stop_);
  if (measured && epoch_ahead_ == state_.epoch + 1) experiment_.train->start_epoch(epoch_ahead_);
}

// A metric that overflowed is worse than any other. So a resumed run decides as the run did: its
// state has null for it.
bool Trainer::better(double metric, double than, double margin) const {
  if (!std::isfinite(metric) || !std::isfinite(than)) return std::isfinite(metric);
  return best_figure_.higher_is_better ? metric > than + margin : metric < than - margin;
}

// Collective. A checkpoint does not hold the best weights: where their file is gone, the next
// validation writes it, whatever its result. A run without another epoch validates at once. A file
// that is not the run's is refused, as a validation would replace it.
void Trainer::check_best() {
  std::string problem, later;
  if (folder_.writes()) {
    const BestWeights found =
        read_best_weights(folder_.best(), *experiment_.network, best_figure_.name);
    if (state_.best_epoch >= 0) problem = found.problem;
    if (problem.empty() && state_.best_epoch >= 0) later = check_origin(found);
    if (!found.temperature.empty()) {
      observer_.on_message(fmt::format("{}: its temperature of {} goes with the next best weights",
                                       printable(folder_.best().string()), found.temperature));
    }
  }
  if (!later.empty()) observer_.on_message(later);
  problem = experiment_.ranks->group().from_leader(problem);
  if (problem.empty()) return;
  validate_first_ = state_.epoch >= experiment_.config.train.epochs ||
                    (state_.batch == 0 && stalled()) || reached_plan();
  observer_.on_message(
      fmt::format("{}: {} (it held epoch {}); {} writes it again. Restore the file and resume "
                  "again to keep it.",
                  printable(folder_.best().string()), problem, state_.best_epoch + 1,
                  validate_first_ ? "a validation of the last weights" : "the next validation"));
  state_.best_epoch = -1;
}

// Refuses older or worse weights than the checkpoint knows of. Returns a message about later ones,
// as a run that was killed between a validation and its checkpoint leaves them.
std::string Trainer::check_origin(const BestWeights& found) const {
  const int64_t epoch = state_.best_epoch + 1;
  const bool same_epoch = found.epoch == epoch || found.epoch == 0;
  const bool same = same_epoch && (!found.metric || *found.metric == state_.best_metric);
  if (same) return "";
  const bool later =
      found.epoch == 0 ? better(*found.metric, state_.best_metric, 0) : found.epoch > epoch;
  const std::string name = printable(folder_.best().string());
  const std::string of = fmt::format(
      "of epoch {}{}", found.epoch,
      found.metric ? fmt::format(" with {} {}", best_figure_.name, figure_text(*found.metric))
                   : "");
  if (later) {
    return fmt::format(
        "{}: these weights are {}, later than the checkpoint: kept until a validation is better "
        "than epoch {}'s ({} {}). Remove the file for the next validation to write it.",
        name, of, epoch, best_figure_.name, figure_text(state_.best_metric));
  }
  fail(ErrorKind::checkpoint,
       "{}: expected this run's best weights, of epoch {} with {} {}, got some {}. Restore the "
       "file, or move it elsewhere: the next validation then writes it again.",
       name, epoch, best_figure_.name, figure_text(state_.best_metric), of);
}

// Whether these are the best weights so far; they are saved then.
bool Trainer::take_best(std::shared_ptr<const Metrics> metrics) {
  validation_ = metrics;
  state_.validated_step = state_.step;
  validated_epoch_ = state_.epoch;
  const double metric = experiment_.best_figure(*metrics).value;
  if (state_.best_epoch >= 0 && !better(metric, state_.best_metric, 0)) return false;
  state_.best_metric = metric;
  state_.best_epoch = state_.epoch;
  const StageTimer timer(times_, Stage::checkpoint);
  std::function<void()> write_examples;
  if (examples_) {
    ValidationExamples examples = examples_->of_all_ranks(experiment_.ranks->group());
    examples.epoch = state_.epoch + 1;
    if (std::ssize(val_paths_) == examples.size()) examples.paths = val_paths_;  // else a user's
    if (!examples.scores.empty()) examples.rest_areas = rest_areas(examples);
    examples.scores = {};
    const int64_t every = examples.every;
    if ((std::ssize(val_hashes_) + every - 1) / every == examples.size()) {
      for (size_t i = 0; i < val_hashes_.size(); i += static_cast<size_t>(every)) {
        examples.contents.push_back(static_cast<int64_t>(val_hashes_[i]));
      }
    }
    write_examples = [path = folder_.validation(), all = std::move(examples)] {
      write_validation_examples(path, all);
    };
  }
  if (!folder_.writes()) return true;
  JsonWriter json(NonFinite::null);
  json.begin_object();
  metrics->write(json);
  json.field("precision", name_of(experiment_.arena->compute_dtype()));
  json.end_object();
  const AverageScope averaged(experiment_.average.get());
  Snapshot model = state_dict(*experiment_.arena, batches_tracked());
  check_finite(model);
  writer_.save_best(folder_.best(), std::move(model),
                    experiment_.weights_info(state_.epoch + 1, json.str()).to_metadata(),
                    std::move(write_examples));
  return true;
}

// What early stopping and the plateau schedule learn from a validation. No run ends before all of
// its layers have been trained.
void Trainer::count_stalled(double metric) {
  const double margin = experiment_.config.train.early_stopping.min_delta;
  const bool first = state_.validations++ == 0;
  if (first || better(metric, state_.stall_metric, margin)) {
    state_.stall_metric = metric;
    state_.stalled = 0;
  } else {
    ++state_.stalled;
  }
  if (state_.epoch < experiment_.config.unfreeze_at) state_.stalled = 0;
  experiment_.schedule->observe(metric);
}

// Whether early stopping ends the run.
bool Trainer::stalled() const {
  const int64_t patience = experiment_.config.train.early_stopping.patience;
  return patience > 0 && state_.stalled >= patience;
}

// Validates a run that has no epoch left, or stopped early.
void Trainer::validate_last_epoch() {
  const std::shared_ptr<const Metrics> metrics = validate();
  if (signal_ != 0) {
    stop_reason_ = StopReason::signal;
    return;
  }
  const int64_t ended = state_.batch == 0 ? 1 : 0;  // else the time was up within the epoch
  state_.epoch -= ended;
  take_best(metrics);
  log_.validation(*metrics, true, state_.epoch, state_.step);
  state_.epoch += ended;
  observer_.on_message(
      fmt::format("the last weights: val {} (best {})", metrics->line(), best_figure_.label()));
  save_last();
}

// The time is up between validations: what has been learned since the last one counts, too. Early
// stopping and schedule hear nothing of it, so that a resumed run goes on as it would have.
void Trainer::validate_at_stop() {
  const std::shared_ptr<const Metrics> metrics = validate();
  if (signal_ != 0) {
    stop_reason_ = StopReason::signal;  // a resume validates again
    return;
  }
  const bool best = take_best(metrics);
  log_.validation(*metrics, best, state_.epoch, state_.step);
  observer_.on_message(
      fmt::format("{} in epoch {}: val {}{}",
                  stop_reason_ == StopReason::repeated ? "the repeated run ended" : "time is up",
                  state_.epoch + 1, metrics->line(),
                  best ? fmt::format(" (best {})", best_figure_.label()) : std::string()));
  save_last();
}

}  // namespace whisker
