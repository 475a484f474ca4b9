// Which classes the network takes for which: confusion matrix, and figures per class.
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/draw/matrix.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "train/metrics/metrics.h"
#include "train/metrics/score_curve.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace whisker {
namespace {

constexpr size_t most_drawn = 200;  // classes of a matrix
constexpr size_t most_listed = 30;  // classes of a table that is open
constexpr size_t most_pairs = 20, worst_classes = 10, most_rows = 2000;

struct ConfusedPair {
  size_t label, predicted;
  int64_t count;
};

std::vector<ConfusedPair> most_confused(const ClassCounts& classes) {
  std::vector<ConfusedPair> pairs;
  const size_t n = classes.classes.size();
  for (size_t label = 0; label < n; ++label) {
    for (size_t predicted = 0; predicted < n; ++predicted) {
      const int64_t count = classes.count(label, predicted);
      if (label != predicted && count > 0) pairs.push_back({label, predicted, count});
    }
  }
  const auto by_count = [](const auto& a, const auto& b) { return a.count > b.count; };
  std::ranges::stable_sort(pairs, by_count);
  return pairs;
}

int64_t labelled(const ClassCounts& classes, size_t label) {
  int64_t sum = 0;
  for (size_t i = 0; i < classes.classes.size(); ++i) sum += classes.count(label, i);
  return sum;
}

std::string pairs_table(const ClassCounts& classes, std::vector<ConfusedPair> pairs,
                        std::string_view of) {
  const size_t all = pairs.size();
  pairs.resize(std::min(all, most_pairs));
  HtmlTable table({"label", "predicted", std::string(of), "of the label"});
  for (const auto& [label, predicted, count] : pairs) {
    table.row().text(classes.classes[label]).text(classes.classes[predicted]);
    table.number(grouped(count))
        .number(percent_text(static_cast<double>(count) /
                             static_cast<double>(labelled(classes, label))));
  }
  std::string html = "<h3>Most often confused</h3>\n" + table.str();
  if (all > pairs.size()) {
    html += report_note(fmt::format("The {} most frequent of {} pairs.", pairs.size(),
                                    grouped(static_cast<int64_t>(all))));
  }
  return html;
}

struct ClassRow {
  size_t number;
  int64_t examples = 0, predicted = 0, correct = 0;
  double precision() const {
    return predicted > 0 ? static_cast<double>(correct) / static_cast<double>(predicted) : 0;
  }
  double recall() const {
    return examples > 0 ? static_cast<double>(correct) / static_cast<double>(examples) : 0;
  }
  double f1() const {
    const double sum = precision() + recall();
    return sum > 0 ? 2 * precision() * recall() / sum : 0;
  }
};

std::string class_table(const ClassCounts& classes, std::span<const ClassRow> rows,
                        std::string_view of) {
  HtmlTable table({"no.", "class", std::string(of), "precision", "recall", "95 % interval", "F1"});
  const auto number = [](bool known, double value) {
    return known ? fmt::format("{:.3f}", value) : std::string("–");
  };
  for (const ClassRow& row : rows) {
    const bool occurs = row.examples > 0;
    const Interval bounds = wilson_interval(row.correct, row.examples);
    table.row().number(fmt::to_string(row.number + 1)).text(classes.classes[row.number]);
    table.number(grouped(row.examples)).number(number(row.predicted > 0, row.precision()));
    table.number(number(occurs, row.recall()));
    table.number(occurs ? fmt::format("{:.2f}–{:.2f}", bounds.low, bounds.high) : "–");
    table.number(number(occurs, row.f1()));
  }
  return table.str();
}

std::string validated(const RunRecord& run) {
  return run.best ? run.best->of : run.validation ? run.validation->of : "examples";
}

std::string no_classes_text(const RunRecord& run) {
  return run.best ? "Not known: neither validation.safetensors nor best.safetensors has the counts."
                  : no_best_text(run) + ".";
}

}  // namespace

bool classifies(const RunRecord& run) {
  const std::string kind = run.setting("data.kind", "images");
  return kind != "series" && kind != "language";
}

std::string confusion_section(const RunRecord& run) {
  constexpr std::string_view heading = "Confusion matrix";
  if (!classifies(run)) return "";
  if (run.classes.empty()) {
    return report_section("confusion", heading, report_note(no_classes_text(run)));
  }
  const size_t n = run.classes.classes.size();
  std::string html;
  if (n <= most_drawn) {
    html = fmt::format("<div class=\"scroll\">{}</div>\n",
                       matrix_svg({.title = "confusion matrix",
                                   .classes = run.classes.classes,
                                   .counts = run.classes.confusion}));
    html += report_note(
        "A row is a label, a column what was predicted; the stronger the color, the larger the "
        "part "
        "of the row. Right predictions are on the diagonal.");
    if (n > 50) html += report_note("The numbers of the classes are those of the table below.");
  } else {
    html = report_note(
        fmt::format("{} classes are too many for a matrix.", grouped(static_cast<int64_t>(n))));
  }
  const std::vector<ConfusedPair> pairs = most_confused(run.classes);
  html += pairs.empty() ? report_note("No example was classified wrong.")
          : n > 2       ? pairs_table(run.classes, pairs, validated(run))
                        : "";
  return report_section("confusion", heading, html);
}

std::string per_class_section(const RunRecord& run) {
  constexpr std::string_view heading = "Per class";
  if (!classifies(run)) return "";
  if (run.classes.empty()) {
    return report_section("classes", heading, report_note(no_classes_text(run)));
  }
  const size_t n = run.classes.classes.size();
  std::vector<ClassRow> rows;
  for (size_t i = 0; i < n; ++i) rows.push_back({.number = i});
  for (size_t label = 0; label < n; ++label) {
    for (size_t predicted = 0; predicted < n; ++predicted) {
      const int64_t count = run.classes.count(label, predicted);
      rows[label].examples += count;
      rows[predicted].predicted += count;
      if (label == predicted) rows[label].correct = count;
    }
  }
  const std::string of = validated(run);
  const double mean = run.figure("f1_macro");
  const auto counts = std::ranges::count_if(
      rows, [](const ClassRow& row) { return row.examples > 0 || row.predicted > 0; });
  const std::string note =
      std::isfinite(mean)
          ? report_note(fmt::format("The mean of F1 over the {}: {}.",
                                    counts < std::ssize(rows)
                                        ? fmt::format("{} that are a label or were predicted (of a "
                                                      "class without {} it is 0)",
                                                      counted(counts, "class", "classes"), of)
                                        : "classes",
                                    figure_text(mean)))
          : "";
  if (n <= most_listed) {
    return report_section("classes", heading, class_table(run.classes, rows, of) + note);
  }
  std::vector<ClassRow> worst = rows;
  std::erase_if(worst, [](const ClassRow& row) { return row.examples == 0 || row.f1() == 1; });
  std::ranges::stable_sort(worst, {}, &ClassRow::f1);
  worst.resize(std::min(worst.size(), worst_classes));
  const std::string all = n > most_rows
                              ? fmt::format("The first {} of {} classes", grouped(most_rows),
                                            grouped(static_cast<int64_t>(n)))
                              : fmt::format("All {} classes", grouped(static_cast<int64_t>(n)));
  rows.resize(std::min(n, most_rows));
  std::string html;
  if (!worst.empty()) {
    html = fmt::format("<h3>The {} of the lowest F1</h3>\n{}", worst.size(),
                       class_table(run.classes, worst, of));
  }
  return report_section("classes", heading,
                        html + note +
                            fmt::format("<details><summary>{}</summary>\n{}</details>\n", all,
                                        class_table(run.classes, rows, of)));
}

}  // namespace whisker
