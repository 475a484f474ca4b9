// Closed forms of the schedules.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace whisker {
namespace {

// Half a cosine from `start` (at 0) to `end` (at 1).
double cosine_between(double start, double end, double share) {
  return end + (start - end) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

}  // namespace

Schedule::Schedule(ScheduleOptions options, double base_rate, int64_t total_steps,
                   int64_t steps_per_epoch)
    : options_(std::move(options)),
      base_(base_rate),
      total_(total_steps),
      steps_per_epoch_(std::max<int64_t>(1, steps_per_epoch)),
      warmup_steps_(std::llround(options_.warmup * static_cast<double>(steps_per_epoch_))) {}

double Schedule::at(int64_t step) const {
  const int64_t restart = options_.restart * steps_per_epoch_;
  const bool again = restart > 0 && step >= restart;
  const double factor = again ? options_.restart_factor : 1;
  const int64_t length = again ? total_ - restart : restart > 0 ? restart : total_;
  const double now = position(step, again ? restart : 0, length);
  const auto warmup = static_cast<double>(warmup_steps_);
  if (now < warmup) {
    const double share = now / warmup;
    return factor * after_warmup(0, length - warmup_steps_) *
           (options_.warmup_start + (1 - options_.warmup_start) * share);
  }
  return factor * after_warmup(now - warmup, length - warmup_steps_);
}

void Schedule::plan(int64_t step, int64_t end) {
  state_.planned.push_back({.step = step, .epochs = epochs(end)});
}

int64_t Schedule::steps_of(const PlannedEpochs& planned) const {
  return std::llround(planned.epochs * static_cast<double>(steps_per_epoch_));
}

int64_t Schedule::end() const {
  const bool any = !state_.planned.empty();
  const bool of_last_part = any && state_.planned.back().step >= steps(options_.restart);
  return of_last_part ? std::min(total_, steps_of(state_.planned.back())) : total_;
}

// Where in a part's shape of `length` steps, whose first step is `begin`, `step` stands.
double Schedule::position(int64_t step, int64_t begin, int64_t length) const {
  double position = 0, slope = 1;
  int64_t from = begin;
  for (const PlannedEpochs& planned : state_.planned) {
    if (planned.step < begin || planned.step > step) continue;
    position += slope * static_cast<double>(planned.step - from);
    from = planned.step;
    const int64_t left = std::max<int64_t>(1, steps_of(planned) - 1 - from);
    slope = std::max(0.0, static_cast<double>(length - 1) - position) / static_cast<double>(left);
  }
  return position + slope * static_cast<double>(step - from);
}

Schedule Schedule::over(int64_t epochs, int64_t restart) const {
  Schedule other = *this;
  other.total_ = epochs * steps_per_epoch_;
  other.options_.restart = restart;
  return other;
}

void Schedule::begin_epoch(int64_t epoch) {
  if (epoch > 0 && epoch == options_.restart) state_ = {.planned = std::move(state_.planned)};
}

// `length`: steps of the whole shape.
double Schedule::after_warmup(double step, int64_t length) const {
  const double epoch = step / static_cast<double>(steps_per_epoch_);
  const auto total = static_cast<double>(std::max<int64_t>(1, length));
  switch (options_.kind) {
    case ScheduleKind::constant:
      return base_;
    case ScheduleKind::step:
      return base_ * std::pow(options_.gamma, std::floor(epoch / options_.step_size));
    case ScheduleKind::multi_step: {
      const auto passed = std::ranges::count_if(
          options_.milestones, [&](double milestone) { return epoch >= milestone; });
      return base_ * std::pow(options_.gamma, static_cast<double>(passed));
    }
    case ScheduleKind::exponential:
      return base_ * std::pow(options_.gamma, std::floor(epoch));
    case ScheduleKind::cosine:
      return cosine_between(base_, options_.minimum, std::min(1.0, step / total));
    case ScheduleKind::one_cycle: {
      const double first = base_ / options_.start_divisor;
      const double last = first / options_.final_divisor;
      const double peak = options_.peak_at * total - 1;
      const double end = total - 1;
      const double now = std::min(step, end);
      if (now <= peak && peak > 0) return cosine_between(first, base_, now / peak);
      if (end <= peak) return base_;  // one step, which is the peak
      return cosine_between(base_, last, (now - peak) / (end - peak));
    }
    case ScheduleKind::plateau:
      return std::max(base_ * state_.factor, options_.minimum);
  }
  return base_;
}

void Schedule::observe(double metric) {
  if (options_.kind != ScheduleKind::plateau) return;
  // The first best is infinite, as PyTorch's: what is not finite is never better.
  const double worst = options_.maximise ? -std::numeric_limits<double>::infinity()
                                         : std::numeric_limits<double>::infinity();
  const double best = state_.any ? state_.best : worst;
  const double margin = std::isfinite(best) ? options_.threshold * std::abs(best) : 0;
  const bool better = std::isfinite(metric) &&
                      (options_.maximise ? metric > best + margin : metric < best - margin);
  if (better) {
    state_.best = metric;
    state_.any = true;
    state_.stalled = 0;
  } else {
    ++state_.stalled;
  }
  if (state_.cooling > 0) {
    --state_.cooling;
    state_.stalled = 0;
  }
  if (state_.stalled > options_.patience) {
    state_.factor *= options_.gamma;
    state_.cooling = options_.cooldown;
    state_.stalled = 0;
  }
}

}  // namespace whisker
