// Counting, and the formulas of precision, recall and F1 (van Rijsbergen 1979, chapter 7).
#include "train/metrics.h"

#include "core/error.h"

#include <algorithm>

namespace whisker {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

ClassificationMetrics::ClassificationMetrics(int64_t classes, int64_t top_k)
    : classes_(classes), top_k_(top_k), confusion_(static_cast<size_t>(classes * classes)) {}

void ClassificationMetrics::add(std::span<const float> scores, int64_t label) {
  const auto best = std::ranges::max_element(scores) - scores.begin();
  const float own = scores[static_cast<size_t>(label)];
  // Ties count against the label unless it comes first, so that a constant output earns nothing.
  const auto ahead = std::ranges::count_if(scores, [&](float s) { return s > own; }) +
                     std::count(scores.begin(), scores.begin() + label, own);
  ++count_;
  correct_ += best == label;
  top_k_correct_ += ahead < top_k_;
  ++confusion_[static_cast<size_t>(label * classes_ + best)];
}

void ClassificationMetrics::add_loss(double mean_loss, int64_t pictures) {
  loss_sum_ += mean_loss * static_cast<double>(pictures);
  loss_count_ += pictures;
}

double ClassificationMetrics::loss() const {
  return loss_count_ > 0 ? loss_sum_ / static_cast<double>(loss_count_) : 0;
}

double ClassificationMetrics::accuracy() const {
  return ratio(correct_, count_);
}
double ClassificationMetrics::top_k_accuracy() const {
  return ratio(top_k_correct_, count_);
}

std::vector<ClassReport> ClassificationMetrics::per_class(
    std::span<const std::string> names) const {
  std::vector<ClassReport> reports;
  for (int64_t c = 0; c < classes_; ++c) {
    int64_t labelled = 0, predicted = 0;
    for (int64_t other = 0; other < classes_; ++other) {
      labelled += confusion_[static_cast<size_t>(c * classes_ + other)];
      predicted += confusion_[static_cast<size_t>(other * classes_ + c)];
    }
    const int64_t right = confusion_[static_cast<size_t>(c * classes_ + c)];
    reports.push_back({.name = names[static_cast<size_t>(c)],
                       .pictures = labelled,
                       .precision = ratio(right, predicted),
                       .recall = ratio(right, labelled),
                       .f1 = ratio(2 * right, labelled + predicted)});
  }
  return reports;
}

void ClassificationMetrics::write(JsonWriter& json, std::span<const std::string> names) const {
  json.field("pictures", count_).field("loss", loss()).field("accuracy", accuracy());
  if (top_k_ > 0) json.field(fmt::format("top_{}", top_k_), top_k_accuracy());
  json.key("per_class").begin_array();
  for (const ClassReport& report : per_class(names)) {
    json.begin_object().field("name", report.name).field("pictures", report.pictures);
    json.field("precision", report.precision).field("recall", report.recall);
    json.field("f1", report.f1).end_object();
  }
  json.end_array().key("confusion").begin_array();
  for (int64_t row = 0; row < classes_; ++row) {
    json.begin_array();
    for (int64_t column = 0; column < classes_; ++column) {
      json.value(confusion_[static_cast<size_t>(row * classes_ + column)]);
    }
    json.end_array();
  }
  json.end_array();
}

std::string ClassificationMetrics::table(std::span<const std::string> names) const {
  size_t width = 5;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text = fmt::format("{:<{}}  pictures  precision  recall      f1\n", "class", width);
  for (const ClassReport& report : per_class(names)) {
    text += fmt::format("{:<{}}  {:>8}  {:>9.4f}  {:>6.4f}  {:>6.4f}\n", report.name, width,
                        report.pictures, report.precision, report.recall, report.f1);
  }
  if (top_k_ > 0) {
    text += fmt::format("among the {} most probable: {:.4f}\n", top_k_, top_k_accuracy());
  }
  constexpr int64_t widest_matrix = 20;
  if (classes_ > widest_matrix) return text;
  text += "\nconfusion matrix: rows are labels, columns predictions\n";
  text += fmt::format("{:<{}}", "", width);
  for (const std::string& name : names) text += fmt::format("  {:>8.8}", name);
  text += "\n";
  for (int64_t row = 0; row < classes_; ++row) {
    text += fmt::format("{:<{}}", names[static_cast<size_t>(row)], width);
    for (int64_t column = 0; column < classes_; ++column) {
      text += fmt::format("  {:>8}", confusion_[static_cast<size_t>(row * classes_ + column)]);
    }
    text += "\n";
  }
  return text;
}

}  // namespace whisker
