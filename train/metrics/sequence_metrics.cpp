// Errors of forecasts and figures of language models.
#include "data/sequences/series.h"
#include "train/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace whisker {

void RegressionMetrics::Errors::add(double error) {
  absolute += std::abs(error);
  square += error * error;
  ++count;
}

double RegressionMetrics::Errors::mae() const {
  return count > 0 ? absolute / static_cast<double>(count) : 0;
}

double RegressionMetrics::Errors::rmse() const {
  return count > 0 ? std::sqrt(square / static_cast<double>(count)) : 0;
}

void RegressionMetrics::add(const Tensor& outputs, const Batch& batch) {
  const ForecastBases& bases = *batch.bases;
  const auto values = outputs.data<const float>();
  const int64_t width = outputs.extent(1);
  for (int64_t row = 0; row < batch.size(); ++row) {
    const int64_t window = batch.indices[static_cast<size_t>(row)];
    for (int64_t j = 0; j < width; ++j) {
      const auto at = static_cast<size_t>(window * width + j);
      const double actual = bases.actual[at];
      const double value = values[static_cast<size_t>(row * width + j)];
      own_.add(bases.restore(window, j, value) - actual);
      if (std::isfinite(bases.naive[at])) naive_.add(bases.naive[at] - actual);
    }
  }
  count_ += batch.size();
}

void RegressionMetrics::visit_own(const std::function<void(Count)>& counts) {
  counts(&count_);
  for (Errors* errors : {&own_, &naive_}) {
    counts(&errors->absolute);
    counts(&errors->square);
    counts(&errors->count);
  }
}

std::vector<Figure> RegressionMetrics::figures() const {
  return {{.name = "mae", .value = own_.mae()}, {.name = "rmse", .value = own_.rmse()}};
}

void RegressionMetrics::write(JsonWriter& json) const {
  json.field("windows", count_).field("loss", loss());
  json.field("mae", own_.mae()).field("rmse", own_.rmse());
  if (naive_.count == 0) return;
  json.key("naive").begin_object().field("mae", naive_.mae());
  json.field("rmse", naive_.rmse()).end_object();
}

std::string RegressionMetrics::table(int) const {
  if (naive_.count == 0) return {};
  return fmt::format(
      "naive forecast ({}): mae {} rmse {}\n",
      season_ > 0 ? "the last known value at the same place of the season" : "the last value",
      figure_text(naive_.mae()), figure_text(naive_.rmse()));
}

void LanguageMetrics::add(const Tensor& outputs, const Batch& batch) {
  const auto labels = batch.labels.data<const int64_t>();
  const auto scores = outputs.data<const float>();
  const auto tokens = static_cast<size_t>(outputs.extent(-1));
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = scores.subspan(i * tokens, tokens);
    correct_ += std::ranges::max_element(row) - row.begin() == labels[i];
  }
  count_ += std::ssize(labels);
}

void LanguageMetrics::visit_own(const std::function<void(Count)>& counts) {
  counts(&count_);
  counts(&correct_);
}

std::vector<Figure> LanguageMetrics::figures() const {
  const double count = static_cast<double>(std::max<int64_t>(1, count_));
  std::vector<Figure> all = {{.name = "perplexity", .value = std::exp(loss())}};
  if (characters_) {
    all.push_back({.name = "bits_per_character", .value = loss() / std::numbers::ln2});
  }
  all.push_back({.name = "accuracy",
                 .value = static_cast<double>(correct_) / count,
                 .higher_is_better = true});
  return all;
}

void LanguageMetrics::write(JsonWriter& json) const {
  json.field("tokens", count_).field("loss", loss());
  for (const Figure& one : figures()) json.field(one.name, one.value);
}

}  // namespace whisker
