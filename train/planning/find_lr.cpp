#include "train/planning/find_lr.h"

#include "core/draw/chart.h"
#include "train/experiment.h"
#include "train/loop/train_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace whisker {
namespace {

constexpr double first_rate = 1e-7, last_rate = 10;
constexpr int64_t most_steps = 100;

// A network whose steps are tried.
class RangeRun {
 public:
  explicit RangeRun(const Config& config)
      : experiment_(one_batch_steps(config)), step_(experiment_) {
    step_.begin({});
  }
  /// At rising rates, in epoch `epoch` of a run and after it.
  RangeTest test(int64_t epoch);
  /// `most_steps` at one rate, in the first epochs.
  void train_head(double rate);

 private:
  static Config one_batch_steps(Config config) {
    config.train.accumulate = 1;
    return config;
  }
  // Until `most_steps`, or `run` returns false.
  template <class Run>
  void each_batch(int64_t epoch, Run run);
  StepState step(const Batch& batch, double rate) {
    step_.run(batch, {.number = ++batches_, .learning_rate = rate, .last_of_epoch = true});
    return step_.read();
  }

  Experiment experiment_;
  TrainStep step_;
  int64_t batches_ = 0;
};

template <class Run>
void RangeRun::each_batch(int64_t epoch, Run run) {
  for (int64_t n = 0; n < most_steps; ++epoch) {
    experiment_.train->start_epoch(epoch);
    const int64_t before = n;
    while (n < most_steps) {
      const std::optional<Batch> batch = experiment_.train->next();
      if (!batch) break;
      if (!run(*batch, n++)) return;
    }
    if (n == before) fail(ErrorKind::data, "data.train: no batch could be read");
  }
}

void RangeRun::train_head(double rate) {
  each_batch(0, [&](const Batch& batch, int64_t) {
    return step(batch, rate).failure == StepFailure::none;
  });
}

RangeTest RangeRun::test(int64_t epoch) {
  if (epoch > 0) {
    experiment_.unfreeze();
    experiment_.optimizer->restart();
    step_.forget_captures();
  }
  RangeTest found;
  const StepTotals begin = step_.read().totals;
  double mean = 0, least = 0, loss_before = begin.loss;
  int64_t rows_before = begin.rows;
  constexpr double kept = 0.9;  // of the moving average, corrected as Adam's
  each_batch(epoch, [&](const Batch& batch, int64_t n) {
    const double share = static_cast<double>(n) / (most_steps - 1);
    const double rate = first_rate * std::pow(last_rate / first_rate, share);
    const StepState state = step(batch, rate);
    const int64_t rows = state.totals.rows - rows_before;  // none where the loss is not finite
    const double loss = (state.totals.loss - loss_before) / static_cast<double>(rows);
    if (rows == 0 || !std::isfinite(loss)) return false;
    loss_before = state.totals.loss;
    rows_before = state.totals.rows;
    mean = kept * mean + (1 - kept) * loss;
    const double smooth = mean / (1 - std::pow(kept, static_cast<double>(found.points.size() + 1)));
    found.points.push_back({.rate = rate, .loss = smooth});
    least = found.points.size() == 1 ? smooth : std::min(least, smooth);
    return state.failure == StepFailure::none && smooth <= 4 * least;
  });
  if (found.points.empty()) {
    fail(ErrorKind::diverged, "--find-lr: the first loss is NaN or Inf. Check data and model.");
  }
  found.suggestion = steepest_rate(found.points);
  return found;
}

}  // namespace

double steepest_rate(const std::vector<RangePoint>& points) {
  // The first averages are of few batches: noise, at rates that change nothing.
  const auto first = points.begin() + std::ssize(points) / 10;
  const auto least = std::ranges::min_element(first, points.end(), {}, &RangePoint::loss);
  double steepest = 0, rate = 0;
  for (auto at = first; at < least; ++at) {
    const auto next = at + 1;
    const double slope = (next->loss - at->loss) / (std::log(next->rate) - std::log(at->rate));
    if (slope < steepest) {
      steepest = slope;
      rate = at->rate;
    }
  }
  return rate;
}

RangeTests find_learning_rates(const Config& config) {
  RangeTests tests;
  {
    RangeRun run(config);
    tests.test = run.test(0);
  }
  if (config.unfreeze_at > 0) {
    RangeRun run(config);
    if (tests.test.suggestion > 0) run.train_head(tests.test.suggestion);
    tests.unfrozen = run.test(config.unfreeze_at);
  }
  return tests;
}

std::string suggestion_text(const RangeTests& tests, int64_t unfreeze_at) {
  const auto fastest = [](const RangeTest& test) {
    return test.suggestion > 0 ? fmt::format("the loss falls fastest at {:.2g}", test.suggestion)
                               : std::string("the loss never falls: check data and model");
  };
  const double rate = tests.test.suggestion;
  const std::string key = rate > 0 ? fmt::format(": optimizer.lr={:.2g}", rate) : std::string();
  if (!tests.unfrozen) return fastest(tests.test) + key + "\n";
  const double later = tests.unfrozen->suggestion;
  return fmt::format("until unfreeze_at={}: {}{}\n  from then on: {}{}\n", unfreeze_at,
                     fastest(tests.test), key, fastest(*tests.unfrozen),
                     rate > 0 && later > 0
                         ? fmt::format(": schedule.restart_factor={:.2g}", later / rate)
                         : std::string());
}

std::string range_test_svg(const RangeTests& tests) {
  std::vector<const RangeTest*> all = {&tests.test};
  if (tests.unfrozen) all.push_back(&*tests.unfrozen);
  Chart chart{.title = "Loss over the learning rate",
              .x = {.label = "learning rate", .log = true, .low = first_rate, .high = last_rate},
              .y = {.label = "loss, smoothed"},
              .series = {},
              .width = 720,
              .height = 420};
  double high = 0;
  for (const RangeTest* test : all) {
    const auto least = std::ranges::min_element(test->points, {}, &RangePoint::loss);
    const auto before =
        std::ranges::max_element(test->points.begin(), least + 1, {}, &RangePoint::loss);
    const double highest = std::ranges::max(test->points, {}, &RangePoint::loss).loss;
    high = std::max(high, std::min(highest, 1.3 * before->loss));  // what grows leaves the drawing
    ChartSeries curve;
    if (all.size() > 1) curve.name = chart.series.empty() ? "frozen layers" : "unfrozen";
    for (const RangePoint& point : test->points) {
      curve.x.push_back(point.rate);
      curve.y.push_back(point.loss);
    }
    if (test->suggestion > 0) {
      chart.marks.push_back(
          {test->suggestion, fmt::format("{:.2g}", test->suggestion), chart.series.size()});
    }
    chart.series.push_back(std::move(curve));
  }
  chart.y.high = high;
  return chart_svg(chart);
}

}  // namespace whisker
