// Every schedule replays PyTorch's rates, with and without warm-up.
#include "optim/schedule.h"

#include "tests/optim/traces.h"

#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

namespace whisker {
namespace {

ScheduleOptions schedule_options_of(const JsonValue& entry) {
  const std::string& kind = entry.at("kind").as_string();
  const JsonValue& given = entry.at("options");
  ScheduleOptions options;
  options.gamma = traces::number_or(given, "gamma", 0.1);
  if (kind == "StepLR") {
    options.kind = ScheduleKind::step;
    options.step_size = given.at("step_size").as_double();
  } else if (kind == "MultiStepLR") {
    options.kind = ScheduleKind::multi_step;
    options.milestones = traces::numbers_of(given.at("milestones"));
  } else if (kind == "ExponentialLR") {
    options.kind = ScheduleKind::exponential;
  } else if (kind == "CosineAnnealingLR") {
    options.kind = ScheduleKind::cosine;
    options.minimum = given.at("eta_min").as_double();
  } else if (kind == "OneCycleLR") {
    options.kind = ScheduleKind::one_cycle;
    options.peak_at = given.at("pct_start").as_double();
    options.start_divisor = given.at("div_factor").as_double();
    options.final_divisor = given.at("final_div_factor").as_double();
  } else {
    options.kind = ScheduleKind::plateau;
    options.gamma = given.at("factor").as_double();
    options.patience = static_cast<int>(given.at("patience").as_int());
    options.cooldown = static_cast<int>(given.at("cooldown").as_int());
    options.threshold = given.at("threshold").as_double();
    options.minimum = given.at("min_lr").as_double();
    options.maximise = given.at("mode").as_string() == "max";
  }
  if (const JsonValue* warmup = entry.find("warmup")) {
    options.warmup = warmup->at("warmup_steps").as_double();
    options.warmup_start = warmup->at("start_factor").as_double();
  }
  return options;
}

TEST(Schedule, FollowsPyTorch) {
  const std::vector<double> metrics = traces::numbers_of(traces::file().at("plateau_metrics"));
  for (const auto& [name, entry] : traces::file().at("schedules").members()) {
    SCOPED_TRACE(name);
    const std::vector<double> rates = traces::numbers_of(entry.at("rates"));
    const ScheduleOptions options = schedule_options_of(entry);
    Schedule schedule(options, entry.at("base_rate").as_double(),
                      static_cast<int64_t>(rates.size()), 1);
    for (size_t t = 0; t < rates.size(); ++t) {
      EXPECT_NEAR(schedule.at(static_cast<int64_t>(t)), rates[t], 5.1e-9 * rates[t])
          << "step " << t;  // the traces hold nine digits
      if (static_cast<double>(t) >= options.warmup) {
        schedule.observe(options.maximise ? 1 - metrics[t] : metrics[t]);
      }
    }
  }
}

// The margin is a share of the best metric's magnitude, on the side that is better.
TEST(Schedule, PlateauCountsWhatIsBetterByMoreThanItsMargin) {
  for (const bool maximise : {false, true}) {
    for (const double best : {50.0, -50.0}) {
      const double margin = maximise ? 5 : -5;
      for (const double share : {0.99, 1.01}) {
        Schedule schedule({.kind = ScheduleKind::plateau,
                           .gamma = 0.5,
                           .patience = 0,
                           .threshold = 0.1,
                           .maximise = maximise},
                          1.0, 10, 1);
        schedule.observe(best);
        schedule.observe(best + share * margin);
        EXPECT_EQ(schedule.at(5), share > 1 ? 1 : 0.5)
            << best << (maximise ? " maximised, " : " minimised, ") << share;
      }
    }
  }
}

// As PyTorch's, which begins with an infinite best.
TEST(Schedule, PlateauGoesOnBehindAMetricThatIsNotFinite) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (const bool maximise : {false, true}) {
    for (const double first : {maximise ? -infinite : infinite, std::nan("")}) {
      Schedule schedule(
          {.kind = ScheduleKind::plateau, .gamma = 0.5, .patience = 1, .maximise = maximise}, 1.0,
          10, 1);
      const double better = maximise ? 1 : -1;
      schedule.observe(first);
      schedule.observe(3);
      EXPECT_EQ(schedule.state().best, 3);
      schedule.observe(3 + better);
      EXPECT_EQ(schedule.at(5), 1) << first;
      for (int i = 0; i < 2; ++i) schedule.observe(first);
      EXPECT_EQ(schedule.state().best, 3 + better);
      EXPECT_EQ(schedule.at(5), 0.5) << first << " is never better";
      for (int i = 0; i < 2; ++i) schedule.observe(std::nan(""));
      EXPECT_EQ(schedule.at(5), 0.25);
    }
  }
}

// Rates of torch 2's OneCycleLR with max_lr 1.
TEST(Schedule, OneCycleEndsAtItsLastRate) {
  const auto last = [](double peak_at, int64_t steps) {
    const Schedule schedule({.kind = ScheduleKind::one_cycle, .peak_at = peak_at}, 1.0, steps, 1);
    return schedule.at(steps - 1);
  };
  for (const auto& [peak_at, steps] :
       {std::pair<double, int64_t>{0.95, 10}, {0.99, 10}, {0.9, 4}, {0.3, 1}, {0.9, 1}, {0.9, 2}}) {
    EXPECT_NEAR(last(peak_at, steps), 4e-6, 1e-12) << peak_at << " of " << steps;
  }
  const Schedule late({.kind = ScheduleKind::one_cycle, .peak_at = 0.95}, 1.0, 10, 1);
  EXPECT_NEAR(late.at(8), 0.9918270878482729, 1e-12);
  const Schedule two({.kind = ScheduleKind::one_cycle}, 1.0, 2, 1);
  EXPECT_NEAR(two.at(0), 0.811745653949763, 1e-12);
  EXPECT_EQ(last(1, 1), 1) << "one step, at the peak";
}

TEST(Schedule, LengthsAreEpochs) {
  const ScheduleOptions options{.kind = ScheduleKind::step, .gamma = 0.5, .step_size = 2};
  const Schedule schedule(options, 1.0, 100, 10);
  EXPECT_EQ(schedule.at(19), 1.0);
  EXPECT_EQ(schedule.at(20), 0.5);
  EXPECT_EQ(schedule.at(40), 0.25);
}

// Before the restart the schedule ends there; from it on, the rates are those of a run of what
// remains, warm-up included.
TEST(Schedule, StartsAgainOverWhatRemains) {
  for (const ScheduleKind kind :
       {ScheduleKind::step, ScheduleKind::multi_step, ScheduleKind::exponential,
        ScheduleKind::cosine, ScheduleKind::one_cycle}) {
    for (const double warmup : {0.0, 1.5}) {
      ScheduleOptions options{.kind = kind,
                              .gamma = 0.5,
                              .step_size = 2,
                              .milestones = {1, 3},
                              .minimum = 0.01,
                              .warmup = warmup};
      const Schedule first(options, 0.5, 40, 10), second(options, 0.5, 70, 10);
      options.restart = 4;
      const Schedule whole(options, 0.5, 110, 10);
      for (int64_t step = 0; step < 110; ++step) {
        EXPECT_EQ(whole.at(step), step < 40 ? first.at(step) : second.at(step - 40)) << step;
      }
      EXPECT_EQ(first.over(11, 4).at(57), whole.at(57));
    }
  }
}

// A plan changes where the schedule ends, not where it is: every rate goes on from the one before.
TEST(Schedule, APlanLaysTheRestOverTheStepsThatFit) {
  for (const ScheduleKind kind : {ScheduleKind::cosine, ScheduleKind::one_cycle}) {
    for (const double warmup : {0.0, 1.5}) {
      const ScheduleOptions options{.kind = kind, .minimum = 0.01, .warmup = warmup};
      const Schedule whole(options, 0.5, 120, 10);
      Schedule same = whole, planned = whole;
      same.plan(7, 120);
      planned.plan(7, 66);  // 6.6 epochs
      EXPECT_EQ(planned.end(), 66);
      planned.plan(30, 44);
      EXPECT_EQ(planned.end(), 44);
      EXPECT_EQ(same.end(), 120);
      for (int64_t step = 0; step < 120; ++step) EXPECT_EQ(same.at(step), whole.at(step)) << step;
      for (int64_t step = 0; step <= 7; ++step) EXPECT_EQ(planned.at(step), whole.at(step)) << step;
      for (int64_t step = 8; step < 44; ++step) {
        EXPECT_LT(std::abs(planned.at(step) - planned.at(step - 1)), 0.1) << step;
      }
      EXPECT_NEAR(planned.at(43), whole.at(119), 1e-12);
      Schedule restored = whole;
      restored.restore(planned.state());
      EXPECT_EQ(restored.at(37), planned.at(37));
    }
  }
}

// Plans of the part before a restart say nothing of the one behind it.
TEST(Schedule, APlanIsOfItsPart) {
  const ScheduleOptions options{.kind = ScheduleKind::one_cycle, .restart = 4};
  const Schedule whole(options, 0.5, 110, 10);
  Schedule planned = whole;
  planned.plan(12, 30);
  EXPECT_EQ(planned.end(), 110);
  for (int64_t step = 40; step < 110; ++step) EXPECT_EQ(planned.at(step), whole.at(step)) << step;
  planned.plan(45, 80);
  EXPECT_EQ(planned.end(), 80);
  EXPECT_EQ(planned.at(45), whole.at(45));
  EXPECT_NEAR(planned.at(79), whole.at(109), 1e-12);
  EXPECT_EQ(planned.epochs(planned.end()), 8);
}

TEST(Schedule, PlateauForgetsAtARestart) {
  const ScheduleOptions options{
      .kind = ScheduleKind::plateau, .gamma = 0.5, .patience = 0, .restart = 3};
  Schedule schedule(options, 1.0, 60, 10);
  for (int64_t epoch = 0; epoch < 6; ++epoch) {
    schedule.begin_epoch(epoch);
    EXPECT_EQ(schedule.at(10 * epoch), epoch == 2 || epoch == 5 ? 0.5 : 1.0) << epoch;
    schedule.observe(1.0);
  }
}

TEST(Schedule, RestartFactorLowersTheRatesBehindIt) {
  const ScheduleOptions options{.restart = 2, .restart_factor = 0.25};
  const Schedule schedule(options, 0.1, 40, 10);
  EXPECT_EQ(schedule.at(19), 0.1);
  EXPECT_EQ(schedule.at(20), 0.025);
}

}  // namespace
}  // namespace whisker
