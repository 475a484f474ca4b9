#include "train/metrics/example_figures.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "train/metrics/calibration.h"
#include "train/metrics/metrics.h"

#include <algorithm>

namespace whisker {

std::string area_text(const std::optional<double>& area) {
  return area ? figure_text(*area) : "not measured";
}

void ExampleFigures::write(JsonWriter& json) const {
  json.key("accuracy_interval").begin_array().value(accuracy.low).value(accuracy.high).end_array();
  json.field("expected_calibration_error", expected_calibration_error);
  if (scored_class.empty()) {
    const bool known = rest_areas.has_value();
    json.field("roc_auc_ovr", known ? std::optional(rest_areas->roc_auc) : std::nullopt);
    json.field("average_precision_ovr",
               known ? std::optional(rest_areas->average_precision) : std::nullopt);
    json.field("roc_auc_ovr_classes", known ? rest_areas->classes : 0);
    return;
  }
  json.field("scored_class", scored_class).field("roc_auc", roc_auc);
  json.field("average_precision", average_precision);
}

std::string ExampleFigures::text() const {
  std::string text = fmt::format(
      "95 % interval of the accuracy: {:.4f} to {:.4f}; expected calibration error {:.4f}\n",
      accuracy.low, accuracy.high, expected_calibration_error);
  if (!scored_class.empty()) {
    text += fmt::format("ROC AUC {}, average precision {}, by the probability of {}\n",
                        area_text(roc_auc), area_text(average_precision), printable(scored_class));
  } else {
    text += fmt::format("each class against the rest: {}\n", rest_areas_text);
  }
  return text;
}

std::string rest_areas_text(const ValidationExamples& examples,
                            const std::optional<RestAreas>& areas) {
  if (examples.has_one_class()) return "not measured: all examples are of one class";
  if (!areas) {
    return fmt::format(
        "not measured: {} examples of {} classes are more than {} probabilities; --predictions "
        "keeps all",
        grouped(examples.size()), grouped(std::ssize(examples.classes)), grouped(most_scores));
  }
  const int64_t others = std::ssize(examples.classes) - areas->classes;
  return fmt::format(
      "ROC AUC {}, average precision {}, means of {}{}", figure_text(areas->roc_auc),
      figure_text(areas->average_precision), counted(areas->classes, "class"),
      others > 0 ? fmt::format("; without {} that no example has", counted(others, "class")) : "");
}

ExampleFigures example_figures(const ValidationExamples& examples,
                               const std::string& positive_class) {
  ExampleFigures figures{.accuracy = wilson_interval(count_in_top(examples, 1), examples.size()),
                         .expected_calibration_error = calibration_of(examples).expected_error()};
  if (examples.classes.size() != 2) {
    figures.rest_areas = rest_areas(examples);
    figures.rest_areas_text = rest_areas_text(examples, figures.rest_areas);
    return figures;
  }
  const bool first = positive_class == examples.classes[0];
  figures.scored_class = examples.classes[first ? 0 : 1];
  const ScoreCurve curve = score_curve(examples, first ? 0 : 1);
  figures.roc_auc = curve.roc_auc();
  figures.average_precision = curve.average_precision();
  return figures;
}

}  // namespace whisker
