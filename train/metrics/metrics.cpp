// Counting, and the formulas of precision, recall and F1 (van Rijsbergen 1979, chapter 7).
#include "train/metrics/metrics.h"

#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "core/io/text_table.h"
#include "core/io/utf8.h"
#include "data/files/file_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace whisker {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

double measured_or_nan(bool measured, double value) {
  return measured ? value : std::numeric_limits<double>::quiet_NaN();
}

std::vector<std::string> numbers(size_t count) {
  std::vector<std::string> texts;
  for (size_t i = 1; i <= count; ++i) texts.push_back(fmt::format("{}", i));
  return texts;
}

// The width of a table whose rows and columns have these names and whose cells hold these counts at
// most.
int64_t confusion_width(std::span<const std::string> names, std::span<const int64_t> counts) {
  const size_t cell = fmt::formatted_size("{}", counts.empty() ? 0 : std::ranges::max(counts));
  size_t longest = 0, sum = 0;
  for (const std::string& name : names) {
    const size_t width = count_code_points(printable(name));
    longest = std::max(longest, width);
    sum += 2 + std::max(width, cell);
  }
  return static_cast<int64_t>(longest + sum);
}

}  // namespace

std::string figure_text(double value) {
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  if (std::isnan(value)) return "not a number";
  constexpr double readable = 1e12;  // a MAE after `log: true` may have 300 digits
  constexpr double small = 0.01;     // errors in the data's units may be of any size
  if (value != 0 && std::abs(value) < small) return fmt::format("{:.4g}", value);
  if (std::abs(value) < readable) return fmt::format("{:.4f}", value);
  const std::string text = fmt::format("{:.4e}", value);
  const size_t exponent = text.find("e+");
  return text.substr(0, exponent) + " x 10^" + text.substr(exponent + 2);
}

std::string Metrics::table(int) const {
  return {};
}

void Metrics::add_loss(double mean_loss, int64_t examples) {
  loss_sum_ += mean_loss * static_cast<double>(examples);
  loss_count_ += examples;
}

void Metrics::visit(const std::function<void(Count)>& counts) {
  counts(&loss_sum_);
  counts(&loss_count_);
  visit_own(counts);
}

double Metrics::loss() const {
  return loss_count_ > 0 ? loss_sum_ / static_cast<double>(loss_count_) : 0;
}

Figure Metrics::figure(std::string_view name) const {
  if (name == "loss") return {.name = "loss", .value = loss()};
  std::string known = "loss";
  for (const Figure& one : figures()) {
    if (one.name == name) return one;
    known += fmt::format(", {}", one.name);
  }
  fail(ErrorKind::usage, "train.metric: expected one of {} for this task, got {}", known, name);
}

std::string Figure::label() const {
  return of.empty() ? std::string(name) : fmt::format("{}({})", name, printable(of));
}

std::string Figure::text() const {
  return measured ? figure_text(value) : "not measured";
}

double Figure::json_value() const {
  return measured_or_nan(measured, value);
}

std::string Metrics::line() const {
  std::string text = fmt::format("loss {}", figure_text(loss()));
  for (const std::vector<Figure>& some : {figures(), more_figures()}) {
    for (const Figure& one : some) {
      text += fmt::format(" {} {}", one.label(), one.text());
    }
  }
  return text;
}

ClassificationMetrics::ClassificationMetrics(std::vector<std::string> classes, int64_t top_k,
                                             std::string examples, std::string positive_class)
    : names_(std::move(classes)),
      top_k_(top_k),
      examples_(std::move(examples)),
      positive_class_(std::move(positive_class)),
      confusion_(names_.size() * names_.size()) {}

void ClassificationMetrics::add(const Tensor& outputs, const Batch& batch) {
  const auto rows = outputs.data<const float>();
  const auto labels = batch.labels.data<const int64_t>();
  for (size_t i = 0; i < labels.size(); ++i) {
    add(rows.subspan(i * names_.size(), names_.size()), labels[i]);
  }
}

void ClassificationMetrics::add(std::span<const float> scores, int64_t label) {
  const auto best = std::ranges::max_element(scores) - scores.begin();
  const float own = scores[static_cast<size_t>(label)];
  // Ties count against the label unless it comes first, so that a constant output earns nothing.
  const auto ahead = std::ranges::count_if(scores, [&](float s) { return s > own; }) +
                     std::count(scores.begin(), scores.begin() + label, own);
  ++count_;
  correct_ += best == label;
  top_k_correct_ += ahead < top_k_;
  ++confusion_[static_cast<size_t>(label * classes() + best)];
}

void ClassificationMetrics::visit_own(const std::function<void(Count)>& counts) {
  for (int64_t* count : {&count_, &correct_, &top_k_correct_}) counts(count);
  for (int64_t& cell : confusion_) counts(&cell);
}

double ClassificationMetrics::accuracy() const {
  return ratio(correct_, count_);
}
double ClassificationMetrics::top_k_accuracy() const {
  return ratio(top_k_correct_, count_);
}

double ClassificationMetrics::f1_macro() const {
  double sum = 0;
  int64_t occurring = 0;
  for (const ClassReport& report : per_class()) {
    if (!report.occurs()) continue;
    sum += report.f1;
    ++occurring;
  }
  return occurring > 0 ? sum / static_cast<double>(occurring) : 0;
}

double ClassificationMetrics::f1_of_old_runs() const {
  const std::vector<ClassReport> reports = per_class();
  if (reports.size() == 2) return reports[1].f1;
  double sum = 0;
  for (const ClassReport& report : reports) sum += report.f1;
  return reports.empty() ? 0 : sum / static_cast<double>(reports.size());
}

std::vector<ClassReport> ClassificationMetrics::per_class() const {
  std::vector<ClassReport> reports;
  for (int64_t c = 0; c < classes(); ++c) {
    int64_t labelled = 0, predicted = 0;
    for (int64_t other = 0; other < classes(); ++other) {
      labelled += confusion_[static_cast<size_t>(c * classes() + other)];
      predicted += confusion_[static_cast<size_t>(other * classes() + c)];
    }
    const int64_t right = confusion_[static_cast<size_t>(c * classes() + c)];
    reports.push_back({.name = names_[static_cast<size_t>(c)],
                       .examples = labelled,
                       .predicted = predicted,
                       .precision = ratio(right, predicted),
                       .recall = ratio(right, labelled),
                       .f1 = ratio(2 * right, labelled + predicted)});
  }
  return reports;
}

std::vector<Figure> ClassificationMetrics::figures() const {
  std::vector<Figure> figures = {
      {.name = "accuracy", .value = accuracy(), .higher_is_better = true},
      {.name = "f1_macro", .value = f1_macro(), .higher_is_better = true}};
  if (positive_class_.empty()) return figures;
  for (const ClassReport& report : per_class()) {
    if (report.name == positive_class_) figures.push_back(f1_class(report));
  }
  return figures;
}

Figure ClassificationMetrics::f1_class(const ClassReport& report) const {
  return {.name = "f1_class",
          .value = report.f1,
          .higher_is_better = true,
          .of = report.name,
          .measured = report.examples > 0};
}

// Figures of each of two classes, none of which is said to be the positive one.
std::vector<Figure> ClassificationMetrics::more_figures() const {
  std::vector<Figure> both;
  if (classes() != 2 || !positive_class_.empty()) return both;
  for (const ClassReport& report : per_class()) both.push_back(f1_class(report));
  return both;
}

Figure ClassificationMetrics::figure(std::string_view name) const {
  if (name == "f1") return {.name = "f1", .value = f1_of_old_runs(), .higher_is_better = true};
  if (name == "f1_class" && positive_class_.empty()) {
    fail(ErrorKind::usage,
         "train.metric: f1_class is the F1 of one class. Name it: train.positive_class, one of {}.",
         quoted_list(names_));
  }
  return Metrics::figure(name);
}

void ClassificationMetrics::write(JsonWriter& json) const {
  json.field(examples_, count_).field("loss", loss()).field("accuracy", accuracy());
  for (const Figure& one : figures()) {
    if (one.name == "accuracy") continue;
    json.field(one.name, one.json_value());
    if (!one.of.empty()) json.field("positive_class", one.of);
  }
  if (top_k_ > 0) json.field(fmt::format("top_{}", top_k_), top_k_accuracy());
  json.list("per_class", per_class(), [&](const ClassReport& report) {
    json.begin_object().field("name", report.name).field(examples_, report.examples);
    const bool labelled = report.examples > 0;
    json.field("precision", measured_or_nan(report.occurs(), report.precision));
    json.field("recall", measured_or_nan(labelled, report.recall));
    json.field("f1", measured_or_nan(labelled, report.f1)).end_object();
  });
  json.key("confusion").begin_array();
  for (int64_t row = 0; row < classes(); ++row) {
    json.begin_array();
    for (int64_t column = 0; column < classes(); ++column) {
      json.value(confusion_[static_cast<size_t>(row * classes() + column)]);
    }
    json.end_array();
  }
  json.end_array();
}

std::string ClassificationMetrics::table(int columns) const {
  constexpr int64_t widest_matrix = 20;
  const bool matrix = classes() <= widest_matrix;
  // Names are never cut, two might then look alike: where a line does not hold them, numbers do.
  const bool numbered = matrix && confusion_width(names_, confusion_) > columns;
  std::vector<std::string> headings = {"class", fmt::format(">{}", examples_), ">precision",
                                       ">recall", ">f1"};
  if (numbered) headings.insert(headings.begin(), ">");
  TextTable table(headings);
  const std::vector<ClassReport> reports = per_class();
  int64_t left_out = 0;
  for (size_t c = 0; c < reports.size(); ++c) {
    const ClassReport& report = reports[c];
    if (!matrix && !report.occurs()) {
      ++left_out;
      continue;
    }
    const auto cell = [](bool measured, double value) {
      return measured ? fmt::format("{:.4f}", value) : std::string("-");
    };
    const bool labelled = report.examples > 0;
    std::vector<std::string> row = {report.name, fmt::format("{}", report.examples),
                                    cell(report.occurs(), report.precision),
                                    cell(labelled, report.recall), cell(labelled, report.f1)};
    if (numbered) row.insert(row.begin(), fmt::format("{}", c + 1));
    table.add(std::move(row));
  }
  std::string text = table.str();
  if (left_out > 0) {
    text +=
        fmt::format("and {} without {} and predictions\n", counted(left_out, "class"), examples_);
  }
  if (top_k_ > 0) {
    text += fmt::format("among the {} most probable: {:.4f}\n", top_k_, top_k_accuracy());
  }
  if (!matrix) return text;
  text += fmt::format("\nconfusion matrix: rows are labels, columns predictions{}\n",
                      numbered ? ", numbered as above" : "");
  return text + (numbered ? confusion_table(numbers(reports.size()), columns)
                          : confusion_table(names_, columns));
}

// The table has as many columns side by side as fit, the others below.
std::string ClassificationMetrics::confusion_table(const std::vector<std::string>& names,
                                                   int columns) const {
  const size_t count = names.size();
  size_t together = count;
  while (together > 1 && confusion_width(std::span(names).last(together), confusion_) > columns) {
    --together;
  }
  std::string text;
  for (size_t first = 0; first < count; first += together) {
    const size_t last = std::min(first + together, count);
    std::vector<std::string> headings = {""};
    for (size_t c = first; c < last; ++c) headings.push_back(fmt::format(">{}", names[c]));
    TextTable part(headings);
    for (size_t row = 0; row < count; ++row) {
      std::vector<std::string> cells = {names[row]};
      for (size_t c = first; c < last; ++c) {
        cells.push_back(fmt::format("{}", confusion_[row * count + c]));
      }
      part.add(std::move(cells));
    }
    if (first > 0) text += "\n";
    text += part.str();
  }
  return text;
}

}  // namespace whisker
