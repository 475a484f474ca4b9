#include "train/metrics/temperature_fit.h"

#include "core/error.h"
#include "train/model/calibration_record.h"

#include <algorithm>
#include <cmath>

namespace whisker {

// Over examples, at beta = 1 / temperature: the loss, and its derivatives by beta. It is convex:
// the second one is the variance of the logits under the predicted probabilities.
struct LogitRows::Sums {
  double loss = 0, slope = 0, curvature = 0;
  int64_t count = 0;

  void add(const Sums& other) {
    loss += other.loss;
    slope += other.slope;
    curvature += other.curvature;
    count += other.count;
  }
};

void LogitRows::add(const Tensor& logits, const Batch& batch) {
  const auto values = logits.data<const float>();
  const bool one = logits.extent(1) == 1;
  classes_ = one ? 2 : logits.extent(1);
  for (const float value : values) {
    if (one) logits_.push_back(0);
    logits_.push_back(value);
  }
  const auto labels = batch.labels.data<const int64_t>();
  labels_.insert(labels_.end(), labels.begin(), labels.end());
}

LogitRows::Sums LogitRows::sums_at(double beta) const {
  Sums sums;
  const auto classes = static_cast<size_t>(classes_);
  for (size_t row = 0; row < labels_.size(); ++row) {
    const auto logits = std::span(logits_).subspan(row * classes, classes);
    const double top = std::ranges::max(logits);
    double whole = 0, first = 0, second = 0;  // moments of the logits below the top one
    for (const float logit : logits) {
      const double below = static_cast<double>(logit) - top;
      const double weight = std::exp(beta * below);
      whole += weight;
      first += weight * below;
      second += weight * below * below;
    }
    const double own = static_cast<double>(logits[static_cast<size_t>(labels_[row])]) - top;
    const double mean = first / whole;
    sums.add({.loss = std::log(whole) - beta * own,
              .slope = mean - own,
              .curvature = std::max(0.0, second / whole - mean * mean),
              .count = 1});
  }
  return sums;
}

Calibration LogitRows::calibration_at(double beta) const {
  ValidationExamples tops{.of = {}, .ranks = 1};
  const auto classes = static_cast<size_t>(classes_);
  for (size_t row = 0; row < labels_.size(); ++row) {
    const auto logits = std::span(logits_).subspan(row * classes, classes);
    const auto top = std::ranges::max_element(logits);
    double whole = 0;
    for (const float logit : logits) {
      whole += std::exp(beta * (static_cast<double>(logit) - static_cast<double>(*top)));
    }
    tops.labels.push_back(static_cast<int32_t>(labels_[row]));
    tops.ranked.push_back(static_cast<int32_t>(top - logits.begin()));
    tops.probabilities.push_back(static_cast<float>(1 / whole));
  }
  return calibration_of(tops);
}

TemperatureFit LogitRows::fit(RankGroup& ranks) const {
  const auto sums_of_all = [&](double beta) {
    Sums all;
    for (const Sums& one : ranks.gather(sums_at(beta))) all.add(one);
    return all;
  };
  const auto error_of_all = [&](double beta) {
    Calibration all;
    for (const Calibration& one : ranks.gather(calibration_at(beta))) {
      for (size_t i = 0; i < all.bins.size(); ++i) {
        all.bins[i].count += one.bins[i].count;
        all.bins[i].correct += one.bins[i].correct;
        all.bins[i].confidence_sum += one.bins[i].confidence_sum;
      }
    }
    return all.expected_error();
  };
  double low = 1 / most_temperature, high = 1 / least_temperature, beta = 1;
  const Sums before = sums_of_all(beta), sharpest = sums_of_all(high), softest = sums_of_all(low);
  const bool blind = softest.slope >= 0;
  if (blind || sharpest.slope <= 0) {
    fail(ErrorKind::data,
         "evaluate --calibrate: no temperature from {} to {} is best for these {} examples: {}. "
         "Use more examples, or others.",
         least_temperature, most_temperature, before.count,
         blind ? "the network does not tell their classes apart"
               : "the network is wrong in none, or hardly any, of them");
  }
  Sums now = before;
  constexpr int most_steps = 200;
  constexpr double precision = 1e-12;
  for (int step = 0; step < most_steps && high - low > precision * beta; ++step) {
    (now.slope < 0 ? low : high) = beta;
    const double newton = beta - now.slope / now.curvature;
    const bool inside = newton > low && newton < high;  // not where the curvature is 0
    const double next = inside ? newton : std::sqrt(low * high);
    if (std::abs(next - beta) <= precision * beta) break;
    beta = next;
    now = sums_of_all(beta);
  }
  const auto count = static_cast<double>(before.count);
  return {.temperature = 1 / beta,
          .loss_before = before.loss / count,
          .loss_after = now.loss / count,
          .error_before = error_of_all(1),
          .error_after = error_of_all(beta)};
}

}  // namespace whisker
