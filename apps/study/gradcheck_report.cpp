// A gradient per row; of kinks the first of each tensor.
#include "apps/study/gradcheck_report.h"

#include "core/draw/chart.h"
#include "core/io/checksum_mark.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

namespace whisker {
namespace {

constexpr std::string_view gradcheck_mark = "<!-- by whisker study gradcheck";
constexpr size_t most_curves = 8;

std::string kinks_text(const std::string& name, const GradcheckResult& result) {
  const GradcheckKink& first = result.kinks[0];
  return fmt::format(
      "{}: {}, {}{}: slope {:.6g} to the left, {:.6g} to the right, gradient {:.6g}{}", name,
      counted(static_cast<int64_t>(result.kinks.size()), "kink"),
      result.kinks.size() > 1 ? "such as " : "", position_in(result.shape, first.index), first.left,
      first.right, first.gradient, result.passed ? " between them" : "");
}

}  // namespace

size_t GradcheckReport::wrong() const {
  return static_cast<size_t>(
      std::ranges::count_if(results, [](const GradcheckResult& one) { return !one.passed; }));
}

std::string GradcheckReport::text(size_t width) const {
  std::string text;
  const auto add_lines = [&](const std::string& line) { text += wrapped_lines(line, width, "  "); };
  if (!heading.empty()) {
    add_lines(heading);
    text += '\n';
  }
  std::vector<std::string> headings = {"tensor",    "shape",  ">checked", "worst at",
                                       ">gradient", ">slope", ">error",   "verdict"};
  if (!owners.empty()) headings.insert(headings.begin(), "op");
  TextTable table(headings);
  for (size_t i = 0; i < results.size(); ++i) {
    const GradcheckResult& result = results[i];
    std::vector<std::string> cells = {result.name,
                                      result.shape.str(),
                                      fmt::format("{}/{}", result.checked, result.shape.count()),
                                      position_in(result.shape, result.index),
                                      fmt::format("{:.6g}", result.gradient),
                                      fmt::format("{:.6g}", result.slope),
                                      fmt::format("{:.1e}", result.error),
                                      !result.passed         ? "WRONG"
                                      : result.kinks.empty() ? "ok"
                                                             : "kink"};
    if (!owners.empty()) {
      cells.insert(cells.begin(), i > 0 && owners[i] == owners[i - 1] ? "" : owners[i]);
    }
    table.add(std::move(cells));
  }
  if (!results.empty()) text += table.str("", width) + "\n";
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].kinks.empty()) continue;
    add_lines(kinks_text(owners.empty() ? results[i].name : owners[i] + " " + results[i].name,
                         results[i]));
  }
  std::string_view what = second_order ? "gradients of gradients" : "gradients";
  int64_t kinks = 0;
  for (const GradcheckResult& result : results) kinks += std::ssize(result.kinks);
  if (wrong() > 0) {
    add_lines(fmt::format("{} of {} {} are wrong (tolerance {:g})", wrong(), results.size(), what,
                          tolerance));
  } else {
    add_lines(fmt::format("all {} {} agree with finite differences (tolerance {:g}){}",
                          results.size(), what, tolerance,
                          kinks > 0 ? fmt::format(", but for {}", counted(kinks, "kink")) : ""));
  }
  if (!unsupported.empty()) {
    add_lines(fmt::format("not checked: {} without gradients of gradients: {}",
                          counted(static_cast<int64_t>(unsupported.size()), "operator"),
                          fmt::join(unsupported, ", ")));
  }
  return text;
}

std::string GradcheckReport::json() const {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).field("network", heading);
  json.field("tolerance", tolerance).field("second_order", second_order);
  json.field("passed", passed()).list("unsupported", unsupported);
  json.list("gradients", results, [&](const GradcheckResult& result) {
    const auto i = static_cast<size_t>(&result - results.data());
    json.begin_object().field("operator", owners.empty() ? "" : owners[i]);
    json.field("tensor", result.name).list("shape", result.shape);
    json.field("checked", result.checked).field("index", result.index);
    json.field("gradient", result.gradient).field("slope", result.slope);
    json.field("error", result.error).field("passed", result.passed);
    json.list("kinks", result.kinks, [&](const GradcheckKink& kink) {
      json.begin_object().field("index", kink.index).field("left", kink.left);
      json.field("right", kink.right).field("gradient", kink.gradient).end_object();
    });
    json.list("errors_by_step", result.sweep).end_object();
  });
  json.list("steps",
            results.empty() || results[0].sweep.empty() ? std::vector<double>() : sweep_steps());
  return json.end_object().str();
}

std::vector<double> sweep_steps() {
  std::vector<double> steps;
  for (int i = 2; i <= 24; ++i) steps.push_back(std::pow(10, -0.5 * i));
  return steps;
}

// Errors of 0 leave a gap in a logarithmic axis.
std::string GradcheckReport::svg() const {
  Chart chart{.title = heading.empty() && !owners.empty() ? owners[0] : heading,
              .x = {.label = "step: rounding to the left, truncation to the right", .log = true},
              .y = {.label = "error of the finite difference", .log = true}};
  const std::vector<double> steps = sweep_steps();
  std::vector<double> largest(steps.size());
  for (const GradcheckResult& result : results) {
    for (size_t i = 0; i < result.sweep.size(); ++i) {
      largest[i] = std::max(largest[i], result.sweep[i]);
    }
    if (results.size() > most_curves) continue;
    chart.series.push_back({result.name, SeriesKind::line, steps, result.sweep});
  }
  if (results.size() > most_curves) {
    chart.series.push_back(
        {fmt::format("largest of {} tensors", results.size()), SeriesKind::line, steps, largest});
  }
  const size_t best =
      static_cast<size_t>(std::min_element(largest.begin(), largest.end()) - largest.begin());
  if (largest[best] > 0) {
    chart.marks.push_back({steps[best], fmt::format("least error, at {:.0e}", steps[best]), 0});
  }
  std::string text = fmt::format("{} -->\n{}", checksum_mark(gradcheck_mark), chart_svg(chart));
  set_checksum(text, gradcheck_mark);
  return text;
}

bool is_gradcheck_svg(std::string_view content) {
  return content.starts_with(gradcheck_mark) && checksum_matches(content, gradcheck_mark);
}

}  // namespace whisker
