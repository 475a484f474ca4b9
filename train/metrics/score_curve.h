// How well a score tells positive examples from negative ones, at every threshold: the ROC curve
// and the precision-recall curve, with their areas.
#pragma once

#include "train/metrics/validation_examples.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace whisker {

/// Examples whose score is at least `threshold`.
struct ScorePoint {
  double threshold = 0;
  int64_t true_positives = 0, false_positives = 0;

  double precision() const {
    return static_cast<double>(true_positives) /
           static_cast<double>(true_positives + false_positives);
  }
};

struct ScoreCurve {
  int64_t positives = 0, negatives = 0;
  /// One for each distinct score, the highest first, so that examples of equal scores are never
  /// apart. The last one counts all examples.
  std::vector<ScorePoint> points = {};

  /// True positives of all positives, false positives of all negatives.
  double recall(const ScorePoint& point) const;
  double false_positive_rate(const ScorePoint& point) const;

  /// The area under the ROC curve by trapezoids: the probability that a positive example scores
  /// higher than a negative one, equal scores counting half (Fawcett 2006, sections 7 and 8).
  /// Unset without examples of both kinds.
  std::optional<double> roc_auc() const;
  /// The sum of each threshold's precision times its step in recall, without interpolation
  /// (scikit-learn's average_precision_score). Unset without positive examples.
  std::optional<double> average_precision() const;
  /// The point of the largest recall among those with at least this precision, the one of the
  /// highest threshold among several. Unset where none has it.
  std::optional<ScorePoint> at_precision(double least) const;
};

/// `positive` holds 0 or 1 for each score.
ScoreCurve score_curve(std::span<const float> scores, std::span<const uint8_t> positive);
/// The curve of `positive_class`'s probability, of examples that know all probabilities.
ScoreCurve score_curve(const ValidationExamples& examples, int32_t positive_class);

/// Unset where the examples do not know all probabilities, or have one class only.
std::optional<RestAreas> rest_areas(const ValidationExamples& examples);

/// Bounds of a fraction.
struct Interval {
  double low = 0, high = 1;
};
/// Wilson's score interval of the fraction correct / count that covers 95 % (Wilson 1927); 0 to 1
/// without examples.
Interval wilson_interval(int64_t correct, int64_t count);

}  // namespace whisker
