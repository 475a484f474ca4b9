// Whether probabilities are what they say: of examples whose top class has 80 %, 80 % should be
// correct (Guo et al. 2017, On Calibration of Modern Neural Networks).
#pragma once

#include "train/metrics/validation_examples.h"

#include <array>
#include <cstdint>

namespace whisker {

inline constexpr int64_t calibration_bins = 15;

/// Examples whose top class's probability lies above `low`, and at `high` at most.
struct CalibrationBin {
  double low = 0, high = 1;
  int64_t count = 0, correct = 0;
  double confidence_sum = 0;  ///< of these probabilities

  double accuracy() const;  ///< 0 without examples
};

struct Calibration {
  std::array<CalibrationBin, calibration_bins> bins;  ///< equally wide, from 0 to 1

  /// The mean over all examples of the distance between a bin's accuracy and its mean confidence
  /// (equation 3); 0 without examples.
  double expected_error() const;
};

/// The calibration of the top class of each example of a classification.
Calibration calibration_of(const ValidationExamples& examples);

/// Number of examples whose label is among the `k` most probable classes, k at most `ranks`.
int64_t count_in_top(const ValidationExamples& examples, int64_t k);

}  // namespace whisker
