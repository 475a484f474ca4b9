// What the clock decides: how long is left, and over how many epochs the schedule is laid.
//
// Note [Time budget] Once steps are steady, the steps that fit into train.time_budget_minutes are
// known, by rank 0's clock, and a schedule with an end is laid over them. At the ends of epochs the
// plan is corrected when the speed has changed. Every plan is part of the checkpoint
// (schedule.planned_epochs): given the plans, a run is the same whatever the clock says. A run that
// a version without plans began keeps its schedule, and the budget only stops it. The part of a
// schedule before a restart is never planned: what follows takes another time.
#include "core/backend/backend.h"
#include "train/loop/repeat.h"
#include "train/loop/resume.h"
#include "train/loop/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace whisker {
namespace {

std::string epochs_text(double epochs) {
  return epochs < 1 ? fmt::format("{:.2g}", epochs) : fmt::format("{:.1f}", epochs);
}

}  // namespace

std::string Trainer::nothing_to_do() const {
  const TrainSettings& settings = experiment_.config.train;
  return fmt::format(
      "nothing to do: the {} epochs that fit into train.time_budget_minutes={} are done. Ask for "
      "more with train.time_budget_minutes=N, or 0 for all {}",
      epochs_text(experiment_.schedule->epochs(state_.step)), settings.time_budget_minutes,
      settings.epochs);
}

// What has changed since `saved`; what to say of the schedule.
std::string Trainer::follow_changes(const TrainState& saved) {
  const Config& config = experiment_.config;
  Schedule& schedule = *experiment_.schedule;
  const double budget = config.train.time_budget_minutes;
  const bool other_budget = saved.time_budget >= 0 && saved.time_budget != budget;
  const bool other_length =
      saved.epochs != config.train.epochs || saved.restart != config.schedule.restart;
  if (saved.time_budget < 0) plans_ = false;
  if (saved.time_budget >= 0) state_.time_budget = budget;
  if (other_length || (other_budget && reached_plan())) {
    Schedule::State all = schedule.state();
    all.planned.clear();
    schedule.restore(all);
  } else if (other_budget && !plans_ && !saved.schedule.planned.empty()) {
    schedule.plan(state_.step, schedule.steps(config.train.epochs));
    observer_.on_message(
        fmt::format("train.time_budget_minutes was {:g} and is {:g}: the rest of the schedule is "
                    "laid over all {} epochs",
                    saved.time_budget, budget, config.train.epochs));
  }
  const std::vector<Schedule::PlannedEpochs>& plans = schedule.state().planned;
  planned_ = !other_budget && !plans.empty() &&
             plans.back().step >= schedule.steps(config.schedule.restart);
  const std::string change = schedule_change(config, schedule, saved);
  const std::string other = environment_difference(saved.environment, environment_of(experiment_));
  if (state_.unrepeatable.empty() && (other_length || !change.empty())) {
    state_.unrepeatable = fmt::format("its {} changed when it was resumed at step {}",
                                      change.empty() ? "length" : "schedule", saved.step + 1);
  } else if (state_.unrepeatable.empty() && !saved.environment.empty() && !other.empty()) {
    state_.unrepeatable = fmt::format("it was resumed at step {} with another environment ({})",
                                      saved.step + 1, other);
  }
  return change;
}

void Trainer::repeat(const TrainState& recorded) {
  plans_ = false;
  repeated_steps_ = recorded.step;
  Schedule::State schedule = experiment_.schedule->state();
  schedule.planned = recorded.schedule.planned;
  experiment_.schedule->restore(schedule);
  import_choices(recorded, experiment_);
}

// Whether all steps that fit into the time budget are done, and epochs are left.
bool Trainer::reached_plan() const {
  const Schedule& schedule = *experiment_.schedule;
  return state_.step >= schedule.end() &&
         schedule.end() < schedule.steps(experiment_.config.train.epochs);
}

// Before it is measured: a forward pass takes about a third of a training step.
double Trainer::between_epochs(double batch_seconds) const {
  const auto batches = static_cast<double>(std::max<int64_t>(0, experiment_.val->batches()));
  const auto every = static_cast<double>(experiment_.config.train.validate_every);
  return pace_.between_epochs().value_or(batch_seconds / 3 * batches / every);
}

// A planned run may take a little longer, for the steps that are left.
bool Trainer::late() const {
  constexpr double grace = 1.05;
  const double budget = experiment_.config.train.time_budget_minutes * 60;
  return budget > 0 && repeated_steps_ < 0 && now() >= budget * (planned_ ? grace : 1);
}

// Those of the whole run.
int64_t Trainer::steps_that_fit() const {
  const TrainSettings& settings = experiment_.config.train;
  const Schedule& schedule = *experiment_.schedule;
  const std::optional<double> batch_seconds = pace_.batch_seconds();
  if (!batch_seconds) return schedule.end();
  const double between = between_epochs(*batch_seconds);
  const double epoch = *batch_seconds * static_cast<double>(batches_) + between;
  const double validation = between * static_cast<double>(settings.validate_every);  // at the end
  const double left = settings.time_budget_minutes * 60 - now() - validation;
  const double steps = std::max(1.0, left / epoch * static_cast<double>(schedule.steps(1)));
  const int64_t all = schedule.steps(settings.epochs);
  return state_.step +
         static_cast<int64_t>(std::min(steps, static_cast<double>(all - state_.step)));
}

// What fits, when it is to be planned now; else 0.
int64_t Trainer::first_plan() const {
  const Config& config = experiment_.config;
  const int64_t epoch = std::max(config.schedule.restart, config.unfreeze_at);
  if (!plans_ || planned_ || state_.epoch < epoch) return 0;
  constexpr double fraction = 0.02;  // of the budget, to measure the speed
  return pace_.known_after(fraction * config.train.time_budget_minutes * 60) ? steps_that_fit() : 0;
}

void Trainer::plan(int64_t end) {
  Schedule& schedule = *experiment_.schedule;
  const TrainSettings& settings = experiment_.config.train;
  const int64_t before = schedule.end();
  schedule.plan(state_.step, end);
  fits_ = 0;
  if (end != before) {
    observer_.on_message(fmt::format(
        "train.time_budget_minutes={}: {} {} {} epochs fit, at {:.3g} s a step; the schedule is "
        "laid over them",
        settings.time_budget_minutes, epochs_text(schedule.epochs(end)),
        planned_ ? "instead of" : "of",
        planned_ ? epochs_text(schedule.epochs(before)) : fmt::to_string(settings.epochs),
        pace_.batch_seconds().value_or(0) * static_cast<double>(settings.accumulate)));
  }
  planned_ = true;
  planned_at_ = now();
}

// Collective. Not at the end of every short epoch.
void Trainer::correct_plan() {
  if (!plans_ || !planned_) return;
  constexpr double pause = 0.04;  // of the budget
  const double budget = experiment_.config.train.time_budget_minutes * 60;
  const bool due = now() - planned_at_ >= pause * budget;
  const int64_t fits =
      experiment_.ranks->group().gather(due ? steps_that_fit() : experiment_.schedule->end())[0];
  const int64_t end = experiment_.schedule->end();
  constexpr double worth = 0.05;  // of the steps that are left
  const auto left = static_cast<double>(end - state_.step);
  if (static_cast<double>(std::abs(fits - end)) > worth * left) plan(fits);
}

void Trainer::add_time_left(StepEvent& event) const {
  const Config& config = experiment_.config;
  const Schedule& schedule = *experiment_.schedule;
  const auto epochs = static_cast<int64_t>(std::ceil(schedule.epochs(schedule.end())));
  event.epochs = epochs;
  const std::optional<double> batch_seconds = pace_.batch_seconds();
  if (!batch_seconds) return;
  const double step =
      *batch_seconds * static_cast<double>(batches_) / static_cast<double>(schedule.steps(1));
  const double run = step * static_cast<double>(std::max<int64_t>(0, schedule.end() - state_.step));
  const double epoch = *batch_seconds * static_cast<double>(batches_ - state_.batch);
  event.epoch_seconds_left = std::min(epoch, run);
  if (state_.epoch < config.unfreeze_at) return;
  event.run_seconds_left =
      run + static_cast<double>(epochs - state_.epoch) * between_epochs(*batch_seconds);
}

void Trainer::prepare(const Preparing& preparing) {
  if (preparing.done == 0) prepare_start_ = now();
  if (preparing.done == preparing.all) prepared_ += now() - prepare_start_;
  steady_ = false;
  observer_.on_preparing(preparing);
}

}  // namespace whisker
