// Whether probabilities are what they say, and what a threshold between two classes costs.
#include "core/draw/chart.h"
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/io/shell_word.h"
#include "core/io/text.h"
#include "train/metrics/calibration.h"
#include "train/metrics/example_figures.h"
#include "train/metrics/metrics.h"
#include "train/metrics/score_curve.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

// Adds those points of a curve with a point per example that a drawing shows apart.
void add_thinned(ChartSeries& series, const ScoreCurve& curve,
                 double (*x)(const ScoreCurve&, const ScorePoint&),
                 double (*y)(const ScoreCurve&, const ScorePoint&)) {
  constexpr double least = 0.002;
  for (const ScorePoint& point : curve.points) {
    const double px = x(curve, point), py = y(curve, point);
    const bool last = &point == &curve.points.back();
    if (!series.x.empty() && !last && std::abs(px - series.x.back()) < least &&
        std::abs(py - series.y.back()) < least) {
      continue;
    }
    series.x.push_back(px);
    series.y.push_back(py);
  }
}

double recall_of(const ScoreCurve& curve, const ScorePoint& point) {
  return curve.recall(point);
}
double false_rate_of(const ScoreCurve& curve, const ScorePoint& point) {
  return curve.false_positive_rate(point);
}
double precision_of(const ScoreCurve&, const ScorePoint& point) {
  return point.precision();
}

// The section of more than two classes.
std::string roc_of_classes(const RunRecord& run) {
  const ValidationExamples& all = *run.validation;
  std::string areas;
  if (all.rest_areas || all.knows_all() || all.epoch == 0 || all.has_one_class()) {
    areas = rest_areas_text(all, all.rest_areas ? all.rest_areas : rest_areas(all));
  } else {
    const bool is_older = all.size() * std::ssize(all.classes) <= most_scores_of_run;
    areas = fmt::format(
        "not known, as a run keeps the five most probable classes of an example{}: whisker "
        "evaluate "
        "{} --split val --report FILE.html measures them",
        is_older ? ", and the version that trained it measured no areas"
                 : fmt::format(", and measures these areas of {} probabilities at most",
                               grouped(most_scores_of_run)),
        shell_word(run_path(run) + "/best.safetensors"));
  }
  return report_section("roc", "ROC and precision-recall",
                        fmt::format("<p>Each class against the rest: {}.</p>\n", markup(areas)));
}

Chart square_chart(std::string title, std::string x, std::string y) {
  return {.title = std::move(title),
          .x = {.label = std::move(x), .low = 0, .high = 1},
          .y = {.label = std::move(y), .low = 0, .high = 1},
          .width = 370,
          .height = 360};
}

std::string threshold_table(const ScoreCurve& curve, const std::string& positive) {
  HtmlTable table(
      {"precision of at least", positive + " from", "precision", "recall", "called " + positive});
  for (const double precision : {0.8, 0.9, 0.95, 0.99}) {
    const std::optional<ScorePoint> point = curve.at_precision(precision);
    table.row().number(fmt::format("{:.2f}", precision));
    if (!point) {
      table.text("no threshold reaches it").text("").text("").text("");
      continue;
    }
    table.number(fmt::format("{:.4f}", point->threshold));
    table.number(fmt::format("{:.3f}", point->precision()));
    table.number(fmt::format("{:.3f}", curve.recall(*point)));
    table.number(grouped(point->true_positives + point->false_positives));
  }
  return "<h3>The threshold that a precision needs</h3>\n" + table.str() +
         report_note("Chosen on these examples: measure it on others before it is relied on.");
}

}  // namespace

std::string no_examples_text(const RunRecord& run) {
  for (const std::string& problem : run.problems) {
    if (problem.starts_with("validation.safetensors")) return "Not known: " + problem;
  }
  return run.best ? "Not known: the run has no validation.safetensors, which versions write that "
                    "are newer than it."
                  : no_best_text(run) + ".";
}

std::string calibration_section(const RunRecord& run) {
  constexpr std::string_view heading = "Reliability of the probabilities";
  if (!classifies(run)) return "";
  if (!run.validation) {
    return report_section("calibration", heading, report_note(no_examples_text(run)));
  }
  const Calibration calibration = calibration_of(*run.validation);
  ChartSeries bars{.name = "accuracy", .kind = SeriesKind::bars};
  ChartSeries counts{.kind = SeriesKind::bars};
  for (const CalibrationBin& bin : calibration.bins) {
    const double middle = (bin.low + bin.high) / 2;
    bars.x.push_back(middle);
    bars.y.push_back(bin.accuracy());
    counts.x.push_back(middle);
    counts.y.push_back(static_cast<double>(bin.count));
  }
  Chart reliability =
      square_chart("reliability", "probability of the predicted class", "fraction that is right");
  reliability.series = {std::move(bars), {.name = "as it should be", .x = {0, 1}, .y = {0, 1}}};
  Chart histogram{.title = "how often",
                  .x = {.label = "probability of the predicted class", .low = 0, .high = 1},
                  .y = {.label = run.validation->of, .low = 0},
                  .series = {std::move(counts)},
                  .width = 370,
                  .height = 360};
  const double error = calibration.expected_error();
  std::string html = charts_html(chart_svg(reliability) + chart_svg(histogram));
  html += fmt::format(
      "<p>Expected calibration error: <strong>{:.4f}</strong>, over 15 equal bins. "
      "{}</p>\n",
      error,
      error < 0.02 ? "The probabilities are about what they say."
                   : "Bars below the line are probabilities that promise too much, "
                     "above it too little.");
  if (run.validation->size() < 300) {
    html += report_note("Of few examples the bars, and the error, are mostly chance.");
  }
  return report_section("calibration", heading, html);
}

std::string roc_section(const RunRecord& run) {
  constexpr std::string_view heading = "ROC and precision-recall";
  const auto& named = run.validation ? run.validation->classes : run.classes.classes;
  if (!classifies(run) || named.size() < 2) return "";
  if (named.size() > 2) return run.validation ? roc_of_classes(run) : "";
  if (!run.validation) {
    return report_section("roc", heading, report_note(no_examples_text(run)));
  }
  const std::vector<std::string>& classes = run.validation->classes;
  const std::string chosen = run.setting("train.positive_class");
  const int32_t positive = classes[0] == chosen ? 0 : 1;
  const std::string& name = classes[static_cast<size_t>(positive)];
  const ScoreCurve curve = score_curve(*run.validation, positive);
  ChartSeries roc{.name = "network", .x = {0}, .y = {0}};
  add_thinned(roc, curve, false_rate_of, recall_of);
  Chart rocs = square_chart("ROC", "false positive rate", "true positive rate");
  rocs.series = {std::move(roc), {.name = "chance", .x = {0, 1}, .y = {0, 1}}};
  ChartSeries precisions{.name = "network"};
  add_thinned(precisions, curve, recall_of, precision_of);
  const double share = static_cast<double>(curve.positives) /
                       static_cast<double>(std::max<int64_t>(1, run.validation->size()));
  Chart recalls = square_chart("precision and recall", "recall", "precision");
  recalls.series = {std::move(precisions), {.name = "chance", .x = {0, 1}, .y = {share, share}}};
  std::string html = fmt::format(
      "<p>Positive is <strong>{}</strong> ({}). Area under the ROC curve: <strong>{}</strong>; "
      "average precision: <strong>{}</strong>.</p>\n<div class=\"charts\">\n{}{}</div>\n",
      markup(name),
      chosen.empty() ? "the second class; train.positive_class chooses" : "train.positive_class",
      area_text(curve.roc_auc()), area_text(curve.average_precision()), chart_svg(rocs),
      chart_svg(recalls));
  return report_section("roc", heading, html + threshold_table(curve, name));
}

std::string forecast_section(const RunRecord& run) {
  constexpr std::string_view heading = "Forecast and truth";
  if (run.setting("data.kind", "images") != "series") return "";
  if (!run.validation || !run.validation->is_forecast()) {
    return report_section("forecast", heading, report_note(no_examples_text(run)));
  }
  const ValidationExamples& all = *run.validation;
  const auto targets = static_cast<int64_t>(all.targets.size()), horizon = all.horizon;
  constexpr int64_t most_windows = 300, most_targets = 6;
  const int64_t begin = std::max<int64_t>(0, all.size() - most_windows);
  std::string charts;
  for (int64_t target = 0; target < std::min(targets, most_targets); ++target) {
    // The last step of each window: the furthest that is forecast.
    ChartSeries truth{.name = "truth"}, forecast{.name = "forecast"};
    for (int64_t i = begin; i < all.size(); ++i) {
      const auto at = static_cast<size_t>((i * horizon + horizon - 1) * targets + target);
      for (auto* series : {&truth, &forecast})
        series->x.push_back(static_cast<double>(i * all.every + 1));
      truth.y.push_back(static_cast<double>(all.truths[at]));
      forecast.y.push_back(static_cast<double>(all.predictions[at]));
    }
    charts += small_chart(all.targets[static_cast<size_t>(target)],
                          run.name.empty() ? "window" : "validation window", "value",
                          {std::move(truth), std::move(forecast)});
  }
  std::string html = charts_html(charts);
  html += report_note(fmt::format(
      "Each point is {} ahead of what the network saw.{}{}",
      horizon == 1 ? "one step" : fmt::format("the last of {} steps", horizon),
      begin > 0 ? fmt::format(" The last {} windows.", most_windows) : "",
      targets > most_targets ? fmt::format(" The first {} of {} targets.", most_targets, targets)
                             : ""));
  return report_section("forecast", heading, html);
}

}  // namespace whisker
