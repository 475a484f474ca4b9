// Figures of a classification that need more than counts: `whisker evaluate` prints them.
#pragma once

#include "core/io/json.h"
#include "train/metrics/score_curve.h"
#include "train/metrics/validation_examples.h"

#include <optional>
#include <string>

namespace whisker {

struct ExampleFigures {
  Interval accuracy;  ///< wilson_interval()
  double expected_calibration_error = 0;
  /// The one of two classes whose probability the areas are of; "" where there are more.
  std::string scored_class = {};
  std::optional<double> roc_auc = {}, average_precision = {};  ///< unset where not measured
  std::optional<RestAreas> rest_areas = {};                    ///< of more than two classes
  std::string rest_areas_text = {};                            ///< the same in words; "" of two

  /// Writes accuracy_interval, expected_calibration_error and, of two classes, scored_class,
  /// roc_auc and average_precision, of more those with _ovr and their classes into the open object.
  void write(JsonWriter& json) const;
  /// The figures in one or two lines.
  std::string text() const;
};

/// "0.9912"; "not measured" where unset.
std::string area_text(const std::optional<double>& area);
/// "ROC AUC 0.9912, average precision 0.8730, means of 18 classes", or why they are not measured.
std::string rest_areas_text(const ValidationExamples& examples,
                            const std::optional<RestAreas>& areas);

/// The figures of a classification's examples. `positive_class`: one of its classes; "": the second
/// of two classes.
ExampleFigures example_figures(const ValidationExamples& examples,
                               const std::string& positive_class);

}  // namespace whisker
