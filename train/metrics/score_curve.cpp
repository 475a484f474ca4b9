#include "train/metrics/score_curve.h"

#include "core/error.h"
#include "data/parallel.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace whisker {
namespace {

double fraction(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// `positives` rise; rivals[i] negative examples score at least as high as the first i of them, and
// lower than the others.
double average_precision_of(std::span<const float> positives, std::span<const int64_t> rivals) {
  const size_t n = positives.size();
  double sum = 0;
  auto negatives = static_cast<double>(rivals[n]);
  for (size_t end = n; end > 0;) {  // positives of equal scores at once
    size_t begin = end - 1;
    while (begin > 0 && positives[begin - 1] == positives[begin]) --begin;
    const auto found = static_cast<double>(n - begin);
    sum += static_cast<double>(end - begin) * found / (found + negatives);
    negatives += static_cast<double>(rivals[begin]);
    end = begin;
  }
  return sum / static_cast<double>(n);
}

}  // namespace

double ScoreCurve::recall(const ScorePoint& point) const {
  return fraction(point.true_positives, positives);
}

double ScoreCurve::false_positive_rate(const ScorePoint& point) const {
  return fraction(point.false_positives, negatives);
}

std::optional<double> ScoreCurve::roc_auc() const {
  if (positives == 0 || negatives == 0) return std::nullopt;
  double area = 0;
  ScorePoint before;
  for (const ScorePoint& point : points) {
    area += static_cast<double>(point.false_positives - before.false_positives) *
            static_cast<double>(point.true_positives + before.true_positives) / 2;
    before = point;
  }
  return area / (static_cast<double>(positives) * static_cast<double>(negatives));
}

std::optional<double> ScoreCurve::average_precision() const {
  if (positives == 0) return std::nullopt;
  double sum = 0;
  int64_t before = 0;
  for (const ScorePoint& point : points) {
    sum += static_cast<double>(point.true_positives - before) * point.precision();
    before = point.true_positives;
  }
  return sum / static_cast<double>(positives);
}

std::optional<ScorePoint> ScoreCurve::at_precision(double least) const {
  std::optional<ScorePoint> best;
  for (const ScorePoint& point : points) {
    if (point.precision() < least || point.true_positives == 0) continue;
    if (!best || point.true_positives > best->true_positives) best = point;
  }
  return best;
}

ScoreCurve score_curve(std::span<const float> scores, std::span<const uint8_t> positive) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, std::ranges::greater(), [&](size_t i) { return scores[i]; });
  ScoreCurve curve;
  for (const size_t i : order) {
    ++(positive[i] ? curve.positives : curve.negatives);
    const double score = scores[i];
    if (curve.points.empty() || curve.points.back().threshold != score) {
      curve.points.push_back({.threshold = score});
    }
    curve.points.back().true_positives = curve.positives;
    curve.points.back().false_positives = curve.negatives;
  }
  return curve;
}

ScoreCurve score_curve(const ValidationExamples& examples, int32_t positive_class) {
  if (!examples.knows_all()) {
    fail(ErrorKind::internal, "score_curve: expected probabilities of all {} classes, got {}",
         examples.classes.size(), examples.ranks);
  }
  std::vector<float> scores;
  std::vector<uint8_t> positive;
  for (int64_t i = 0; i < examples.size(); ++i) {
    scores.push_back(examples.probability(i, positive_class));
    positive.push_back(examples.labels[static_cast<size_t>(i)] == positive_class);
  }
  return score_curve(scores, positive);
}

// As ScoreCurve does by sorting, but sorts the few positive examples of each class only, and counts
// for each other example which of them it is not below.
std::optional<RestAreas> rest_areas(const ValidationExamples& examples) {
  if (!examples.knows_all()) return std::nullopt;
  const int64_t classes = std::ssize(examples.classes);
  std::vector<std::vector<float>> positives(examples.classes.size());
  for (int64_t i = 0; i < examples.size(); ++i) {
    const int32_t label = examples.labels[static_cast<size_t>(i)];
    positives[static_cast<size_t>(label)].push_back(examples.probability(i, label));
  }
  for (std::vector<float>& own : positives) std::ranges::sort(own);
  std::vector<double> won(examples.classes.size());  // pairs in which the positive scores higher
  std::vector<std::vector<int64_t>> rivals;          // by how many positives score as much or less
  for (const std::vector<float>& own : positives) rivals.emplace_back(own.size() + 1);
  constexpr int64_t block = 64;  // classes whose scores lie side by side
  parallel_for((classes + block - 1) / block, -1, [&](int64_t number) {
    const int64_t begin = number * block, end = std::min(begin + block, classes);
    for (int64_t i = 0; i < examples.size(); ++i) {
      for (int64_t c = begin; c < end; ++c) {
        const std::vector<float>& own = positives[static_cast<size_t>(c)];
        if (own.empty() || examples.labels[static_cast<size_t>(i)] == c) continue;
        const auto equal =
            std::ranges::equal_range(own, examples.probability(i, static_cast<int32_t>(c)));
        won[static_cast<size_t>(c)] += static_cast<double>(own.end() - equal.end()) +
                                       static_cast<double>(std::ssize(equal)) / 2;
        ++rivals[static_cast<size_t>(c)][static_cast<size_t>(equal.end() - own.begin())];
      }
    }
  });
  RestAreas all;
  for (size_t c = 0; c < won.size(); ++c) {
    const double pairs = static_cast<double>(positives[c].size()) *
                         static_cast<double>(examples.size() - std::ssize(positives[c]));
    if (pairs == 0) continue;
    all.roc_auc += won[c] / pairs;
    all.average_precision += average_precision_of(positives[c], rivals[c]);
    ++all.classes;
  }
  if (all.classes == 0) return std::nullopt;
  all.roc_auc /= static_cast<double>(all.classes);
  all.average_precision /= static_cast<double>(all.classes);
  return all;
}

Interval wilson_interval(int64_t correct, int64_t count) {
  if (count == 0) return {};
  constexpr double z = 1.959963984540054;  // the normal distribution's quantile of 0.975
  const double n = static_cast<double>(count), p = fraction(correct, count);
  const double middle = p + z * z / (2 * n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n));
  const double whole = 1 + z * z / n;
  return {.low = correct == 0 ? 0 : (middle - half) / whole,
          .high = correct == count ? 1 : (middle + half) / whole};
}

}  // namespace whisker
