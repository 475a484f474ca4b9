#include "train/metrics/calibration.h"

#include <algorithm>
#include <cmath>

namespace whisker {

double CalibrationBin::accuracy() const {
  return count > 0 ? static_cast<double>(correct) / static_cast<double>(count) : 0;
}

double Calibration::expected_error() const {
  double sum = 0;
  int64_t count = 0;
  for (const CalibrationBin& bin : bins) {
    sum += std::abs(static_cast<double>(bin.correct) - bin.confidence_sum);
    count += bin.count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

Calibration calibration_of(const ValidationExamples& examples) {
  Calibration calibration;
  constexpr double bins = calibration_bins;
  for (size_t i = 0; i < calibration.bins.size(); ++i) {
    calibration.bins[i].low = static_cast<double>(i) / bins;
    calibration.bins[i].high = static_cast<double>(i + 1) / bins;
  }
  for (int64_t i = 0; i < examples.size(); ++i) {
    const double confidence = examples.probabilities[static_cast<size_t>(i * examples.ranks)];
    const double at = std::clamp(std::ceil(confidence * bins) - 1, 0.0, bins - 1);
    CalibrationBin& bin = calibration.bins[static_cast<size_t>(at)];
    ++bin.count;
    bin.correct += examples.is_correct(i);
    bin.confidence_sum += confidence;
  }
  return calibration;
}

int64_t count_in_top(const ValidationExamples& examples, int64_t k) {
  int64_t count = 0;
  for (int64_t i = 0; i < examples.size(); ++i) {
    const auto first = examples.ranked.begin() + i * examples.ranks;
    const auto last = first + std::min(k, examples.ranks);
    count += std::find(first, last, examples.labels[static_cast<size_t>(i)]) != last;
  }
  return count;
}

}  // namespace whisker
