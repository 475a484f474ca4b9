#include "train/planning/find_lr.h"

#include "train/experiment.h"
#include "train/loop/train_step.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr double first_rate = 1e-7, last_rate = 10;
constexpr int64_t most_steps = 100;

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

RangeTest find_learning_rate(Config config) {
  config.train.accumulate = 1;
  Experiment experiment(std::move(config));
  TrainStep step(experiment);
  RangeTest test;
  double mean = 0, least = 0, loss_before = 0;
  int64_t rows_before = 0;
  constexpr double kept = 0.9;  // of the moving average, corrected as Adam's
  step.begin({});
  for (int64_t n = 0, epoch = 0; n < most_steps; ++epoch) {
    experiment.train->start_epoch(epoch);
    const int64_t before = n;
    while (n < most_steps) {
      const std::optional<Batch> batch = experiment.train->next();
      if (!batch) break;
      const double share = static_cast<double>(n) / (most_steps - 1);
      const double rate = first_rate * std::pow(last_rate / first_rate, share);
      step.run(*batch, {.number = ++n, .learning_rate = rate, .last_of_epoch = true});
      const StepState state = step.read();
      const int64_t rows = state.totals.rows - rows_before;  // none where the loss is not finite
      const double loss = (state.totals.loss - loss_before) / static_cast<double>(rows);
      if (rows == 0 || state.failure != StepFailure::none || !std::isfinite(loss)) n = most_steps;
      if (rows == 0 || !std::isfinite(loss)) break;
      loss_before = state.totals.loss;
      rows_before = state.totals.rows;
      mean = kept * mean + (1 - kept) * loss;
      const double smooth =
          mean / (1 - std::pow(kept, static_cast<double>(test.points.size() + 1)));
      test.points.push_back({.rate = rate, .loss = smooth});
      least = test.points.size() == 1 ? smooth : std::min(least, smooth);
      if (smooth > 4 * least) n = most_steps;
    }
    if (n == before) fail(ErrorKind::data, "data.train: no batch could be read");
  }
  if (test.points.empty()) {
    fail(ErrorKind::diverged, "--find-lr: the first loss is NaN or Inf. Check data and model.");
  }
  test.suggestion = steepest_rate(test.points);
  return test;
}

std::string range_test_svg(const RangeTest& test) {
  constexpr double width = 720, height = 420, left = 70, right = 20, top = 30, bottom = 60;
  const auto least = std::ranges::min_element(test.points, {}, &RangePoint::loss);
  const double low = least->loss;
  const auto before =
      std::ranges::max_element(test.points.begin(), least + 1, {}, &RangePoint::loss);
  const double highest = std::ranges::max(test.points, {}, &RangePoint::loss).loss;
  double high = std::min(highest, 1.3 * before->loss);  // a loss that grows leaves the drawing
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
  svg += "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"";
  for (const RangePoint& point : test.points) {
    svg += fmt::format("{:.1f},{:.1f} ", x_of(point.rate), y_of(point.loss));
  }
  svg += "\"/>\n";
  if (test.suggestion > 0) {
    svg += fmt::format(
        "<path d=\"M{0:.1f} {1}V{2}\" stroke=\"#b3261e\" stroke-dasharray=\"5 4\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" fill=\"#b3261e\">{4:.2g}</text>\n",
        x_of(test.suggestion), top, height - bottom, top - 8, test.suggestion);
  }
  return svg + fmt::format(
                   "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">learning rate</text>\n"
                   "<text x=\"18\" y=\"{}\" text-anchor=\"middle\" transform=\"rotate(-90 18 "
                   "{})\">loss, smoothed</text>\n</svg>\n",
                   (left + width - right) / 2, height - 14, height / 2, height / 2);
}

}  // namespace whisker
