#include "train/planning/find_lr.h"

#include "train/experiment.h"
#include "train/loop/train_step.h"

#include <algorithm>
#include <cmath>
#include <limits>

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
  constexpr double width = 720, height = 420, left = 70, right = 20, top = 30, bottom = 60;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const RangeTest* test : all) {
    const auto least = std::ranges::min_element(test->points, {}, &RangePoint::loss);
    const auto before =
        std::ranges::max_element(test->points.begin(), least + 1, {}, &RangePoint::loss);
    const double highest = std::ranges::max(test->points, {}, &RangePoint::loss).loss;
    low = std::min(low, least->loss);
    high = std::max(high, std::min(highest, 1.3 * before->loss));  // what grows leaves the drawing
  }
  high = high > low ? high : low + 1;
  const auto x_of = [&](double rate) {
    return left +
           (width - left - right) * std::log(rate / first_rate) / std::log(last_rate / first_rate);
  };
  const auto y_of = [&](double loss) {
    const double share = (std::min(loss, high) - low) / (high - low);
    return height - bottom - share * (height - top - bottom);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"13\" role=\"img\">\n"
      "<title>Loss over the learning rate</title>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width, height);
  for (int power = -7; power <= 1; ++power) {
    const double x = x_of(std::pow(10, power));
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1}V{2}\" stroke=\"#ddd\"/><text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">1e{4}</text>\n",
        x, top, height - bottom, height - bottom + 20, power);
  }
  for (int i = 0; i <= 4; ++i) {
    const double loss = low + (high - low) * i / 4;
    svg += fmt::format(
        "<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#ddd\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5:.3g}</text>\n",
        left, y_of(loss), width - right, left - 8, y_of(loss) + 4, loss);
  }
  constexpr const char* colors[] = {"#1f5fa8", "#b3261e"};
  constexpr const char* names[] = {"frozen layers", "unfrozen"};
  for (size_t i = 0; i < all.size(); ++i) {
    svg += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"",
                       colors[i]);
    for (const RangePoint& point : all[i]->points) {
      svg += fmt::format("{:.1f},{:.1f} ", x_of(point.rate), y_of(point.loss));
    }
    svg += "\"/>\n";
    if (all.size() > 1) {
      svg += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", left + 10,
                         height - bottom - 30 + 18 * static_cast<double>(i), colors[i], names[i]);
    }
    if (all[i]->suggestion <= 0) continue;
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1}V{2}\" stroke=\"{5}\" stroke-dasharray=\"5 4\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" fill=\"{5}\">{4:.2g}</text>\n",
        x_of(all[i]->suggestion), top, height - bottom, top - 8, all[i]->suggestion, colors[i]);
  }
  return svg + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">learning rate</text>\n"
                   "<text x=\"18\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 18 "
                   "{})\">loss, smoothed</text>\n</svg>\n",
                   (left + width - right) / 2, height - 14, height / 2, height / 2);
}

}  // namespace whisker
