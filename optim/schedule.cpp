// Closed forms of the schedules.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

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
  if (again) step -= restart;
  if (step < warmup_steps_) {
    const double share = static_cast<double>(step) / static_cast<double>(warmup_steps_);
    return factor * after_warmup(0, length - warmup_steps_) *
           (options_.warmup_start + (1 - options_.warmup_start) * share);
  }
  return factor * after_warmup(step - warmup_steps_, length - warmup_steps_);
}

Schedule Schedule::over(int64_t epochs, int64_t restart) const {
  Schedule other = *this;
  other.total_ = epochs * steps_per_epoch_;
  other.options_.restart = restart;
  return other;
}

void Schedule::begin_epoch(int64_t epoch) {
  if (epoch > 0 && epoch == options_.restart) state_ = {};
}

// `length`: steps of the whole shape.
double Schedule::after_warmup(int64_t step, int64_t length) const {
  const double epoch = static_cast<double>(step) / static_cast<double>(steps_per_epoch_);
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
      return cosine_between(base_, options_.minimum,
                            std::min(1.0, static_cast<double>(step) / total));
    case ScheduleKind::one_cycle: {
      const double first = base_ / options_.start_divisor;
      const double last = first / options_.final_divisor;
      const double peak = options_.peak_at * total - 1;
      const double end = total - 1;
      const auto now = std::min(static_cast<double>(step), end);
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
  // As PyTorch's, the first best is infinite: what is not finite is never better.
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
