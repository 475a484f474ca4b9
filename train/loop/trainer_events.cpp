// What the observer, metrics.jsonl and log.txt are told of steps and epochs. A line's loss is the
// difference of the epoch's sums between two lines: the device keeps no others, and they are read
// for the line anyway.
#include "train/loop/trainer.h"

#include <algorithm>
#include <optional>
#include <string>

namespace whisker {
namespace {

std::optional<double> per_row(double sum, int64_t rows) {
  return rows > 0 ? std::optional(sum / static_cast<double>(rows)) : std::nullopt;
}

}  // namespace

StepTotals Trainer::epoch_totals() const {
  return {.loss = state_.loss_sum, .correct = state_.correct, .rows = state_.rows};
}

StepTotals Trainer::unlogged_totals() const {
  return {.loss = state_.loss_sum - state_.logged.loss,
          .correct = state_.correct - state_.logged.correct,
          .rows = state_.rows - state_.logged.rows};
}

std::optional<double> Trainer::share_correct(const StepTotals& totals) const {
  if (experiment_.network->signature().task() == Task::regression) return std::nullopt;
  return per_row(static_cast<double>(totals.correct), totals.rows);
}

StepEvent Trainer::step_event() const {
  const double seconds = now() - batches_start_;
  const double done = static_cast<double>(epoch_examples_);
  const bool read = state_.rows > 0;  // in this epoch, and a loss was finite
  const StepTotals epoch = epoch_totals();
  const StepTotals recent = unlogged_totals();
  StepEvent event = {
      .epoch = state_.epoch,
      .batch = state_.batch,
      .batches = batches_,
      .step = state_.step,
      .loss = per_row(recent.loss, recent.rows),
      .accuracy = share_correct(recent),
      .epoch_loss = per_row(epoch.loss, epoch.rows),
      .epoch_accuracy = share_correct(epoch),
      .learning_rate = experiment_.schedule->at(std::max<int64_t>(0, state_.step - 1)),
      .gradient_norm = read ? gradient_norm_ : std::nullopt,
      .examples_per_s = done / std::max(seconds, 1e-9),
      .wait_share = times_[Stage::data_wait] / std::max(seconds, 1e-9),
      .ranks = rank_times_};
  add_time_left(event);
  return event;
}

void Trainer::log_step(const StepEvent& event) {
  if (experiment_.config.train.log_ranks) {
    const double seconds = std::max(now() - batches_start_, 1e-9);
    folder_.log(
        fmt::format("step {}: {:.1f} ms a batch, data wait {:.1f} %, communication {:.1f} %",
                    state_.step, 1e3 * seconds / static_cast<double>(epoch_batches_),
                    100 * event.wait_share, 100 * waited_ / seconds));
  }
  log_.step(event, now());
  state_.logged = epoch_totals();
}

// What the last lines have left of the epoch is part of the next one.
void Trainer::reset_totals() {
  const StepTotals left = unlogged_totals();
  state_.logged = {.loss = -left.loss, .correct = -left.correct, .rows = -left.rows};
  state_.loss_sum = 0;
  state_.correct = state_.rows = 0;
}

// Saving and messages from here on count in the next epoch's times.
void Trainer::report(EpochEvent event) {
  event.seconds = now() - epoch_start_;
  event.times = times_;
  epoch_start_ += event.seconds;
  times_ = {};
  const StageTimer timer(times_, Stage::logging);
  log_.epoch(event, state_.step, now());
  tell_notes();
  observer_.on_epoch(event);
}

void Trainer::tell_notes() {
  for (BatchSource* source : {experiment_.train.get(), experiment_.val.get()}) {
    if (const std::string note = source->take_note(); !note.empty()) observer_.on_message(note);
  }
  for (const std::string& note : {writer_.take_note(), log_.take_note()}) {
    if (!note.empty()) observer_.on_message(note);
  }
}

}  // namespace whisker
