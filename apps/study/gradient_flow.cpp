#include "apps/study/gradient_flow.h"

#include "core/draw/chart.h"
#include "core/draw/markup.h"
#include "core/draw/page.h"
#include "core/io/checksum_mark.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/io/text_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace whisker {
namespace {

constexpr std::string_view flow_svg_mark = "<!-- by whisker study gradient-flow";
constexpr std::string_view flow_page_mark = "by whisker study gradient-flow";
constexpr size_t most_flow_values = size_t{1} << 25;  // of names and steps
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// The row's place for a name; new ones have NaN in the steps before.
template <class Flow>
Flow& flow_of(std::vector<Flow>& flows, std::map<std::string, size_t>& places,
              const std::string& name) {
  const auto [found, is_new] = places.try_emplace(name, flows.size());
  if (is_new) flows.emplace_back();
  return flows[found->second];
}

void put(StepValues& values, size_t at, double value) {
  values.resize(at, unknown);
  values.push_back(value);
}

// A norm says nothing of gradients that are not finite in part.
double norm_of(const std::optional<TensorSummary>& gradients) {
  const bool known = gradients && gradients->statistics.not_finite == 0;
  return known ? gradients->statistics.norm : unknown;
}

struct ThreeSteps {
  size_t first = 0, middle = 0, last = 0;
};
ThreeSteps three_of(size_t count) {
  return {.first = 0, .middle = count / 2, .last = count - 1};
}

std::string shown(double value) {
  return std::isnan(value) ? "" : fmt::format("{:.3g}", value);
}

void write_values(JsonWriter& json, std::string_view key, const StepValues& values) {
  json.list(key, values);
}

// x counts layers or parameters, from 1; a curve for each of the three steps.
template <class Flow>
Chart chart_over(const GradientFlow& flow, const std::vector<Flow>& rows, StepValues Flow::*values,
                 std::string Flow::*name, const std::string& title, const std::string& x) {
  Chart chart{.title = title, .x = {.label = x}, .y = {.log = true}};
  const ThreeSteps at = three_of(flow.steps.size());
  std::vector<size_t> steps = {at.first, at.middle, at.last};
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  for (const size_t step : steps) {
    ChartSeries curve{.name = fmt::format("step {}", flow.steps[step])};
    for (size_t i = 0; i < rows.size(); ++i) {
      curve.x.push_back(static_cast<double>(i + 1));
      curve.y.push_back((rows[i].*values)[step]);
    }
    if (step == steps.back()) {
      ChartSeries points{.kind = SeriesKind::points, .x = curve.x, .y = curve.y};
      for (const Flow& row : rows) points.labels.push_back(row.*name);
      chart.series.push_back(std::move(curve));
      chart.series.push_back(std::move(points));
    } else {
      chart.series.push_back(std::move(curve));
    }
  }
  return chart;
}

Chart layers_chart(const GradientFlow& flow) {
  return chart_over(flow, flow.layers, &LayerFlow::gradient, &LayerFlow::layer,
                    "Norm of the gradient at each layer's result",
                    "layers, from the input to the loss");
}

// Curves over the steps, of at most eight rows spread over all.
template <class Flow>
Chart chart_in_time(const GradientFlow& flow, const std::vector<Flow>& rows,
                    StepValues Flow::*values, std::string Flow::*name, const std::string& title,
                    bool log) {
  constexpr size_t most = 8;
  Chart chart{.title = title, .x = {.label = "step"}, .y = {.log = log}};
  const size_t count = std::min(rows.size(), most);
  for (size_t k = 0; k < count; ++k) {
    const size_t row = count > 1 ? k * (rows.size() - 1) / (count - 1) : 0;
    ChartSeries curve{.name = rows[row].*name, .y = rows[row].*values};
    for (const int64_t step : flow.steps) curve.x.push_back(static_cast<double>(step));
    chart.series.push_back(std::move(curve));
  }
  return chart;
}

}  // namespace

GradientFlow GradientFlow::of(const std::filesystem::path& file, const std::string& run) {
  GradientFlow flow{.run = run};
  std::map<std::string, size_t> layer_places, parameter_places;
  std::map<std::string, size_t> order;  // of the layers of the step that ran most of them
  read_histograms(file, [&](const HistogramRow& row) {
    const size_t at = flow.steps.size();
    flow.steps.push_back(row.step);
    const size_t names =
        flow.layers.size() + flow.parameters.size() + row.layers.size() + row.parameters.size();
    if (names > most_flow_values / flow.steps.size()) {
      fail(ErrorKind::data, "{}: step {}: expected at most {} layers and parameters in all steps",
           printable(file.string()), row.step, most_flow_values);
    }
    if (row.layers.size() > order.size()) {
      order.clear();
      for (const LayerHistograms& one : row.layers) order.emplace(one.layer, order.size());
    }
    std::map<std::string, std::pair<int64_t, double>> updates;  // of each layer's largest parameter
    for (const ParameterHistograms& one : row.parameters) {
      ParameterFlow& to = flow_of(flow.parameters, parameter_places, one.name);
      to.name = one.name;
      put(to.gradient, at, norm_of(one.gradients));
      put(to.weight, at, one.weights.statistics.norm);
      put(to.update, at, one.update_ratio.value_or(unknown));
      const size_t dot = one.name.rfind('.');
      auto& largest = updates[one.name.substr(0, dot == std::string::npos ? 0 : dot)];
      if (one.weights.count > largest.first) {
        largest = {one.weights.count, one.update_ratio.value_or(unknown)};
      }
    }
    for (const LayerHistograms& one : row.layers) {
      LayerFlow& to = flow_of(flow.layers, layer_places, one.layer);
      to.layer = one.layer;
      to.op = one.op;
      to.units = one.units.value_or(0);
      const TensorStatistics& values = one.activations.statistics;
      const auto count = static_cast<double>(one.activations.count);
      put(to.gradient, at, norm_of(one.gradients));
      put(to.activation, at, values.deviation);
      put(to.zeros, at, static_cast<double>(values.zeros) / count);
      put(to.dead_units, at, one.dead_units ? static_cast<double>(*one.dead_units) : unknown);
      const int64_t bad =
          values.not_finite + (one.gradients ? one.gradients->statistics.not_finite : 0);
      put(to.not_finite, at, static_cast<double>(bad));
      const auto update = updates.find(one.layer);
      put(to.update, at, update == updates.end() ? unknown : update->second.second);
    }
  });
  if (flow.steps.empty()) {
    fail(ErrorKind::data, "{}: expected a row for each recorded step, got none",
         printable(file.string()));
  }
  // Steps with the cached results of frozen layers run the others alone.
  std::ranges::stable_sort(flow.layers, {}, [&](const LayerFlow& one) {
    const auto found = order.find(one.layer);
    return found == order.end() ? order.size() : found->second;
  });
  for (LayerFlow& one : flow.layers) {
    for (StepValues* values : {&one.gradient, &one.activation, &one.zeros, &one.dead_units,
                               &one.not_finite, &one.update}) {
      values->resize(flow.steps.size(), unknown);
    }
  }
  for (ParameterFlow& one : flow.parameters) {
    for (StepValues* values : {&one.gradient, &one.weight, &one.update}) {
      values->resize(flow.steps.size(), unknown);
    }
  }
  return flow;
}

std::string GradientFlow::text(size_t width) const {
  const ThreeSteps at = three_of(steps.size());
  std::string text = fmt::format("{}: {}, {} to {}\n\n", printable(run),
                                 counted(static_cast<int64_t>(steps.size()), "recorded step"),
                                 steps.front(), steps.back());
  TextTable table({"layer", fmt::format(">gradient {}", steps[at.first]),
                   fmt::format(">{}", steps[at.middle]), fmt::format(">{}", steps[at.last]),
                   "trend", fmt::format(">update {}", steps[at.first]),
                   fmt::format(">{}", steps[at.last]), ">zeros", ">dead units"});
  for (const LayerFlow& one : layers) {
    const double dead = one.dead_units[at.last], zeros = one.zeros[at.last];
    table.add({one.layer, shown(one.gradient[at.first]), shown(one.gradient[at.middle]),
               shown(one.gradient[at.last]), trend_of(one.gradient), shown(one.update[at.first]),
               shown(one.update[at.last]),
               std::isnan(zeros) ? "" : fmt::format("{:.0f} %", 100 * zeros),
               std::isnan(dead) ? "" : fmt::format("{:.0f} of {}", dead, one.units)});
  }
  text += table.str("  ", width);
  const auto add = [&](const std::string& sentence) { text += wrapped_lines(sentence, width); };
  text += "\n";
  add(fmt::format(
      "gradient: norm at the layer's result, of the mean loss of the step's last batch (of rank "
      "0's part of it); empty where none was asked for, or not all of it was finite. update: norm "
      "of "
      "one update / norm of the weights, of the layer's largest parameter. zeros, dead units: in "
      "step {}; a unit is dead that a relu left at 0 for the whole batch.",
      steps[at.last]));
  text += "\n";
  const std::vector<std::string> found = findings();
  if (found.empty()) add("Nothing stands out: gradients reach every layer, and updates are usual.");
  for (const std::string& one : found) add(one);
  return text;
}

std::string GradientFlow::json() const {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("schema_version", 1).field("run", run).list("steps", steps);
  json.list("layers", layers, [&](const LayerFlow& one) {
    json.begin_object().field("layer", one.layer).field("operator", one.op);
    json.field("units", one.units).field("trend", trend_of(one.gradient));
    write_values(json, "gradient_norm", one.gradient);
    write_values(json, "activation_deviation", one.activation);
    write_values(json, "zeros", one.zeros);
    write_values(json, "dead_units", one.dead_units);
    write_values(json, "not_finite", one.not_finite);
    write_values(json, "update_ratio", one.update);
    json.end_object();
  });
  json.list("parameters", parameters, [&](const ParameterFlow& one) {
    json.begin_object().field("name", one.name);
    write_values(json, "gradient_norm", one.gradient);
    write_values(json, "weight_norm", one.weight);
    write_values(json, "update_ratio", one.update);
    json.end_object();
  });
  json.list("findings", findings());
  return json.end_object().str();
}

std::string GradientFlow::svg() const {
  std::string text =
      fmt::format("{} -->\n{}", checksum_mark(flow_svg_mark), chart_svg(layers_chart(*this)));
  set_checksum(text, flow_svg_mark);
  return text;
}

std::string GradientFlow::html() const {
  std::vector<LayerFlow> relus, trained;
  for (const LayerFlow& one : layers) {
    if (one.units > 0) relus.push_back(one);
    if (std::ranges::any_of(one.update, [](double ratio) { return ratio > 0; })) {
      trained.push_back(one);
    }
  }
  std::vector<Chart> charts = {
      layers_chart(*this),
      chart_in_time(*this, layers, &LayerFlow::gradient, &LayerFlow::layer,
                    "The same over training", true),
      chart_over(*this, trained, &LayerFlow::update, &LayerFlow::layer,
                 "Norm of one update / norm of the weights",
                 "trained layers, from the input to the loss"),
      chart_in_time(*this, layers, &LayerFlow::activation, &LayerFlow::layer,
                    "Deviation of each layer's result", true)};
  if (!relus.empty()) {
    charts.push_back(chart_in_time(*this, relus, &LayerFlow::dead_units, &LayerFlow::layer,
                                   "Units that a relu left at 0 for the whole batch", false));
  }
  std::string text = fmt::format(
      "{}<h1>Gradient flow</h1>\n<pre>{}</pre>\n",
      page_head(flow_page_mark, run, "base-uri 'none'; form-action 'none'",
                "body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; background: "
                "var(--back); color: var(--text); font-family: system-ui, sans-serif; "
                "line-height: 1.4; }\npre { overflow-x: auto; }\n"
                "figure { margin: 1.5rem 0; overflow-x: auto; }\n"
                "figure svg { max-width: 100%; height: auto; }\n"),
      markup(this->text(100), KeptLines::all));
  for (const Chart& chart : charts) {
    text += fmt::format("<figure>\n{}</figure>\n", chart_svg(chart));
  }
  return finished_page(std::move(text), flow_page_mark);
}

bool is_gradient_flow_svg(std::string_view content) {
  return content.starts_with(flow_svg_mark) && checksum_matches(content, flow_svg_mark);
}

bool is_gradient_flow_page(std::string_view content) {
  return is_page(content, flow_page_mark);
}

}  // namespace whisker
