// Loss, metric and learning rate over the epochs; where the time went.
#include "core/draw/chart.h"
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/io/duration.h"
#include "core/io/text.h"
#include "train/loop/events.h"
#include "train/metrics/metrics.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace whisker {
namespace {

constexpr size_t most_points = 250;
constexpr double chart_width = 400, chart_height = 290;

using Points = std::vector<std::pair<double, double>>;

Points by_epoch(const RunRecord& run, std::string_view name) {
  Points points;
  for (const LoggedEpoch& one : run.epochs) {
    if (one.values.contains(name)) points.emplace_back(one.epoch, logged_value(one.values, name));
  }
  return points;
}

Points by_step(const RunRecord& run, std::string_view name) {
  Points points;
  for (const auto& [at, values] : run.steps) {
    if (values.contains(name)) points.emplace_back(at, logged_value(values, name));
  }
  return points;
}

// The series of many points has the means of as many neighbours each; what is not finite is a gap.
ChartSeries series_of(std::string name, const Points& points) {
  ChartSeries series{.name = std::move(name)};
  const size_t count = std::min(points.size(), most_points);
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * points.size() / count, end = (i + 1) * points.size() / count;
    double x = 0, y = 0, known = 0;
    for (size_t j = begin; j < end; ++j) {
      x += points[j].first;
      if (!std::isfinite(points[j].second)) continue;
      y += points[j].second;
      ++known;
    }
    series.x.push_back(x / static_cast<double>(end - begin));
    series.y.push_back(known > 0 ? y / known : std::numeric_limits<double>::quiet_NaN());
  }
  return series;
}

// Points by steps or by epochs, whichever were logged more often.
Points training_points(const RunRecord& run, std::string_view of_steps,
                       std::string_view of_epochs) {
  Points steps = by_step(run, of_steps), epochs = by_epoch(run, of_epochs);
  return steps.size() > epochs.size() ? steps : epochs;
}

std::string in_words(std::string name) {
  std::ranges::replace(name, '_', ' ');
  return name;
}

class CurveCharts {
 public:
  explicit CurveCharts(const RunRecord& run) {
    for (const LoggedEpoch& one : run.epochs) {
      last_ = std::max(last_, one.epoch);
      if (one.best) best_ = one.epoch;
    }
    for (const auto& [at, values] : run.steps) last_ = std::max(last_, at);
  }

  void add(const std::string& title, ChartAxis y, std::vector<ChartSeries> series, bool mark) {
    const auto is_empty = [](const ChartSeries& one) { return one.x.empty(); };
    if (std::ranges::all_of(series, is_empty)) return;
    // One without points keeps its place, so that all charts have one colour for validation.
    for (ChartSeries& one : series) {
      if (is_empty(one)) one.name = "";
    }
    Chart chart{.title = title,
                .x = {.label = "epoch", .low = 0, .high = std::max(last_, 1.0)},
                .y = std::move(y),
                .series = std::move(series),
                .width = chart_width,
                .height = chart_height};
    if (mark && best_ > 0) {
      chart.marks = {{.x = best_, .text = "best", .series = 1}};
    }
    html_ += chart_svg(chart);
  }
  /// A figure that no epoch changes, over all of them; empty where it is not known.
  ChartSeries level(std::string name, double value) const {
    if (!std::isfinite(value)) return {};
    return {.name = std::move(name), .x = {0, std::max(last_, 1.0)}, .y = {value, value}};
  }
  const std::string& html() const { return html_; }

 private:
  double last_ = 0, best_ = 0;
  std::string html_;
};

}  // namespace

// A language model's metrics are plainer than its loss.
std::string curve_metric(const RunRecord& run) {
  const auto has = [&](const std::string& name) {
    return std::ranges::any_of(
        run.epochs, [&](const LoggedEpoch& one) { return one.values.contains("val_" + name); });
  };
  const std::string metric = run.metric();
  if (metric != "loss" && has(metric)) return metric;
  for (const char* name : {"accuracy", "mae"}) {
    if (metric != "loss" && has(name)) return name;
  }
  for (const char* name : {"bits_per_character", "perplexity", "accuracy", "mae"}) {
    if (has(name)) return name;
  }
  return "";
}

ChartSeries epoch_series(const RunRecord& run, std::string_view key, std::string name) {
  return series_of(std::move(name), by_epoch(run, key));
}

std::string curves_section(const RunRecord& run) {
  if (run.epochs.empty() && run.steps.empty()) {
    return report_section("curves", "Curves",
                          report_note("Nothing is drawn: metrics.jsonl has no epoch yet."));
  }
  CurveCharts charts(run);
  charts.add("loss", {.label = "loss"},
             {series_of("training", training_points(run, "loss", "train_loss")),
              series_of("validation", by_epoch(run, "val_loss"))},
             true);
  if (const std::string metric = curve_metric(run); !metric.empty()) {
    ChartAxis axis{.label = in_words(metric)};
    if (metric == "accuracy" || metric.starts_with("f1")) axis.high = 1;
    charts.add(in_words(metric), axis,
               {series_of("training", metric == "accuracy"
                                          ? training_points(run, "accuracy", "train_accuracy")
                                          : by_epoch(run, "train_" + metric)),
                series_of("validation", by_epoch(run, "val_" + metric)),
                charts.level("naive forecast", run.figure("naive_" + metric))},
               true);
  }
  const Points rates = training_points(run, "learning_rate", "learning_rate");
  const bool ends = rates.size() > by_step(run, "learning_rate").size();
  charts.add(ends ? "learning rate at an epoch's end" : "learning rate",
             {.label = "learning rate", .low = 0}, {series_of("", rates)}, false);
  if (const Points norms = by_step(run, "gradient_norm"); norms.size() > 1) {
    charts.add("gradient norm", {.label = "gradient norm", .low = 0}, {series_of("", norms)},
               false);
  }
  std::string html = charts_html(charts.html());
  html += report_note(
      "The training loss is that of training: with augmentation, dropout, label smoothing and "
      "class "
      "weights where they are on. The validation loss is without them.");
  if (rates.empty()) {
    html += report_note(
        "No learning rate is drawn: metrics.jsonl has none, as the run logged no step "
        "(train.log_every) and its version wrote none for epochs.");
  }
  return report_section("curves", "Curves", html);
}

std::string time_section(const RunRecord& run) {
  std::array<double, 5> seconds{};
  double all = 0;
  for (const LoggedEpoch& one : run.epochs) {
    for (size_t i = 0; i < seconds.size(); ++i) {
      seconds[i] += one.times[i];
      all += one.times[i];
    }
  }
  if (!(all > 0)) {
    return report_section("time", "Where the time went",
                          report_note("Not known: metrics.jsonl has no times of an epoch."));
  }
  constexpr std::string_view about[] = {
      "waiting for batches: more data.workers or data.cache help where this is large",
      "forward, backward and the optimizer", "the validation set", "writing weights and state",
      "metrics.jsonl and messages"};
  HtmlTable table({"what", "time", "part", ""});
  for (size_t i = 0; i < seconds.size(); ++i) {
    table.row().text(stage_names[i]).number(human_seconds(seconds[i]));
    table.number(percent_text(seconds[i] / all));
    table.html(fmt::format(
        "<span class=\"bar\" style=\"width:{:.0f}px\"></span><span class=\"path\">{}</span>",
        120 * seconds[i] / all, about[i]));
  }
  std::string html = table.str();
  double speed = 0;
  for (const auto& [at, values] : run.steps) {
    const double rate = logged_value(values, "images_per_s");
    if (std::isfinite(rate)) speed = rate;
  }
  html += report_note(fmt::format(
      "Of the {} that the epochs of metrics.jsonl took.{}", human_seconds(all),
      speed > 0 ? fmt::format(" The last epoch trained {} examples per second.",
                              speed < 100 ? figure_text(speed) : grouped(std::llround(speed)))
                : ""));
  return report_section("time", "Where the time went", html);
}

}  // namespace whisker
