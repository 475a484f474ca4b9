// Curves, areas and intervals against figures worked out by hand, of scikit-learn 1.9.1 and
// statsmodels 0.15.
#include "train/metrics/score_curve.h"

#include "train/metrics/calibration.h"
#include "train/metrics/example_figures.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

ScoreCurve tied_curve() {
  const std::vector<float> scores = {0.9F, 0.8F, 0.8F, 0.8F, 0.7F, 0.6F,
                                     0.6F, 0.5F, 0.4F, 0.4F, 0.3F, 0.1F};
  const std::vector<uint8_t> positive = {1, 1, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0};
  return score_curve(scores, positive);
}

// 500 scores of two digits and labels that follow them, of a generator that NumPy repeats.
struct ManyScores {
  std::vector<float> scores;
  std::vector<uint8_t> positive;

  ManyScores() {
    uint64_t state = 12345;
    const auto next = [&] {
      state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
      return static_cast<double>((state >> 8) % 101) / 100;
    };
    for (int i = 0; i < 500; ++i) scores.push_back(static_cast<float>(next()));
    for (const float score : scores) {
      positive.push_back(next() < 0.2 + 0.6 * static_cast<double>(score));
    }
  }
};

TEST(ScoreCurve, EqualScoresAreNeverApart) {
  const ScoreCurve curve = tied_curve();
  EXPECT_EQ(curve.positives, 5);
  EXPECT_EQ(curve.negatives, 7);
  std::vector<double> recalls, precisions;
  for (const ScorePoint& point : curve.points) {
    recalls.push_back(curve.recall(point));
    precisions.push_back(point.precision());
  }
  EXPECT_THAT(recalls, testing::ElementsAre(0.2, 0.6, 0.6, 0.8, 0.8, 1, 1, 1));
  EXPECT_THAT(precisions,
              testing::ElementsAre(1, 0.75, 0.6, 4.0 / 7, 0.5, 0.5, 5.0 / 11, 5.0 / 12));
  EXPECT_DOUBLE_EQ(curve.false_positive_rate(curve.points[1]), 1.0 / 7);
}

TEST(ScoreCurve, AreasAreScikitLearns) {
  EXPECT_DOUBLE_EQ(tied_curve().roc_auc().value(), 0.7714285714285714);
  EXPECT_DOUBLE_EQ(tied_curve().average_precision().value(), 0.7142857142857143);
  const ManyScores many;
  const ScoreCurve curve = score_curve(many.scores, many.positive);
  EXPECT_EQ(curve.positives, 256);
  EXPECT_NEAR(curve.roc_auc().value(), 0.6948962602459016, 1e-12);
  EXPECT_NEAR(curve.average_precision().value(), 0.6842678225124394, 1e-12);
}

TEST(ScoreCurve, OneKindOfExamplesHasNoArea) {
  const std::vector<float> scores = {0.5F, 0.25F};
  const ScoreCurve none = score_curve(scores, std::vector<uint8_t>{0, 0});
  EXPECT_FALSE(none.roc_auc());
  EXPECT_FALSE(none.average_precision());
  EXPECT_FALSE(none.at_precision(0));
  const ScoreCurve all = score_curve(scores, std::vector<uint8_t>{1, 1});
  EXPECT_FALSE(all.roc_auc());
  EXPECT_EQ(all.average_precision(), 1);
  EXPECT_FALSE(score_curve({}, {}).roc_auc());
}

// roc_auc_score(labels, rows, multi_class="ovr") of the first eight is 0.9027777777777778, the mean
// of average_precision_score() 0.8074074074074074.
TEST(ScoreCurve, EachClassAgainstTheRest) {
  ValidationExamples all{.of = "rows", .classes = {"a", "b", "c"}, .ranks = 1};
  all.labels = {0, 0, 1, 2, 2, 0, 2, 1};
  all.scores = {0.7F, 0.2F, 0.1F, 0.4F, 0.4F, 0.2F, 0.1F, 0.6F, 0.3F, 0.2F, 0.5F, 0.3F,
                0.3F, 0.3F, 0.4F, 0.5F, 0.1F, 0.4F, 0.1F, 0.2F, 0.7F, 0.4F, 0.4F, 0.2F};
  EXPECT_NEAR(rest_areas(all).value().roc_auc, 0.9027777777777778, 1e-12);
  EXPECT_NEAR(rest_areas(all).value().average_precision, 0.8074074074074074, 1e-12);
  EXPECT_EQ(rest_areas(all).value().classes, 3);
  for (int32_t& label : all.labels) label = std::min(label, 1);
  EXPECT_EQ(rest_areas(all).value().classes, 2);  // of "c" there is none
  EXPECT_THAT(rest_areas_text(all, rest_areas(all)),
              testing::EndsWith(", means of 2 classes; without 1 class that no example has"));
  all.scores.clear();
  all.labels.resize(1234, 0);
  EXPECT_EQ(rest_areas_text(all, rest_areas(all)),
            "not measured: 1,234 examples of 3 classes are more than 50,000,000 probabilities; "
            "--predictions keeps all");
  for (int32_t& label : all.labels) label = 1;
  EXPECT_EQ(rest_areas_text(all, rest_areas(all)), "not measured: all examples are of one class");
}

TEST(ScoreCurve, TheMeansAreThoseOfTheCurves) {
  constexpr int32_t classes = 70;
  ValidationExamples all{.of = "rows", .ranks = 1};
  for (int32_t c = 0; c < classes; ++c) all.classes.push_back(std::to_string(c));
  uint64_t state = 1;
  for (int i = 0; i < 300; ++i) {
    for (int32_t c = 0; c < classes; ++c) {
      state = state * 6364136223846793005 + 1442695040888963407;
      all.scores.push_back(static_cast<float>(state >> 58));  // of 64 values: many are equal
    }
    all.labels.push_back(i % (classes - 1));
  }
  double areas = 0, precisions = 0;
  for (int32_t c = 0; c + 1 < classes; ++c) {
    const ScoreCurve curve = score_curve(all, c);
    areas += curve.roc_auc().value();
    precisions += curve.average_precision().value();
  }
  EXPECT_NEAR(rest_areas(all).value().roc_auc, areas / (classes - 1), 1e-12);
  EXPECT_NEAR(rest_areas(all).value().average_precision, precisions / (classes - 1), 1e-12);
  EXPECT_EQ(rest_areas(all).value().classes, classes - 1);
}

TEST(ScoreCurve, AThresholdForAPrecision) {
  const ScoreCurve curve = tied_curve();
  EXPECT_FLOAT_EQ(static_cast<float>(curve.at_precision(0.7).value().threshold), 0.8F);
  EXPECT_FLOAT_EQ(static_cast<float>(curve.at_precision(0.55).value().threshold), 0.6F);
  EXPECT_FLOAT_EQ(static_cast<float>(curve.at_precision(0.45).value().threshold), 0.4F);
  EXPECT_FLOAT_EQ(static_cast<float>(curve.at_precision(1).value().threshold), 0.9F);
  EXPECT_FALSE(
      score_curve(std::vector<float>{0.5F, 0.5F}, std::vector<uint8_t>{0, 1}).at_precision(0.75));
}

TEST(WilsonInterval, IsThatOfStatsmodels) {
  const auto near = [](int64_t correct, int64_t count, double low, double high) {
    const Interval interval = wilson_interval(correct, count);
    EXPECT_NEAR(interval.low, low, 1e-12);
    EXPECT_NEAR(interval.high, high, 1e-12);
  };
  near(0, 10, 0, 0.27753279986288926);
  near(9, 10, 0.5958499732047614, 0.982123786904927);
  near(10, 10, 0.7224672001371106, 1);
  near(912, 1000, 0.8928277489502235, 0.9280190020576792);
  near(0, 0, 0, 1);
}

// Three examples of two classes: the top one has 0.8, 0.6, 1.
ValidationExamples three_examples() {
  ValidationExamples examples{.of = "images", .classes = {"a", "b"}, .ranks = 2};
  examples.labels = {0, 0, 1};
  examples.ranked = {0, 1, 1, 0, 1, 0};
  examples.probabilities = {0.8F, 0.2F, 0.6F, 0.4F, 1, 0};
  examples.losses = {0, 0, 0};
  return examples;
}

TEST(Calibration, BinsByTheTopClass) {
  const Calibration calibration = calibration_of(three_examples());
  // 0.8 is 12/15 in f64 and above it as f32; 0.6 is 9/15 and above it, too.
  EXPECT_EQ(calibration.bins[12].count, 1);
  EXPECT_EQ(calibration.bins[9].count, 1);
  EXPECT_EQ(calibration.bins[9].correct, 0);
  EXPECT_EQ(calibration.bins[14].count, 1);
  EXPECT_DOUBLE_EQ(calibration.bins[14].high, 1);
  EXPECT_DOUBLE_EQ(calibration.bins[14].confidence_sum, 1);
  EXPECT_NEAR(calibration.expected_error(), (0.2 + 0.6 + 0) / 3, 1e-7);
  EXPECT_EQ(Calibration().expected_error(), 0);
}

TEST(Calibration, ExpectedErrorOfMany) {
  const ManyScores many;
  ValidationExamples examples{.of = "images", .classes = {"a", "b"}, .ranks = 1};
  for (size_t i = 0; i < many.scores.size(); ++i) {
    examples.labels.push_back(many.positive[i] ? 0 : 1);
    examples.ranked.push_back(0);
    examples.probabilities.push_back(many.scores[i]);
  }
  EXPECT_NEAR(calibration_of(examples).expected_error(), 0.10492000031843782, 1e-12);
}

TEST(Calibration, LabelsAmongTheMostProbable) {
  EXPECT_EQ(count_in_top(three_examples(), 1), 2);
  EXPECT_EQ(count_in_top(three_examples(), 2), 3);
  EXPECT_EQ(count_in_top(three_examples(), 5), 3);
}

TEST(ScoreCurve, OfAValidation) {
  const ScoreCurve curve = score_curve(three_examples(), 1);
  EXPECT_EQ(curve.positives, 1);
  EXPECT_DOUBLE_EQ(curve.roc_auc().value(), 1);
}

}  // namespace
}  // namespace whisker
