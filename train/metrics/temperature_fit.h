// Temperature scaling: one number by which logits are divided, so that probabilities are neither
// too sure nor too unsure; the order of the classes stays (Guo et al. 2017, section 4.2).
#pragma once

#include "core/communicator/rank_group.h"
#include "core/tensor/tensor.h"
#include "data/dataset.h"
#include "train/metrics/calibration.h"

#include <cstdint>
#include <span>
#include <vector>

namespace whisker {

struct TemperatureFit {
  double temperature = 1;
  double loss_before = 0, loss_after = 0;    ///< mean negative log likelihood of the labels
  double error_before = 0, error_after = 0;  ///< expected calibration errors
};

/// The logits of a rank's examples.
class LogitRows {
 public:
  /// Adds logits (N, classes) as an OutputObserver, or (N, 1): the second of two classes' before a
  /// sigmoid.
  void add(const Tensor& logits, const Batch& batch);
  /// Collective: minimises the loss over the temperature, by Newton's method within bisection, in
  /// f64. Throws data where the best one lies beyond least_temperature or most_temperature: where
  /// no example is wrong, or none is told from another.
  TemperatureFit fit(RankGroup& ranks) const;

 private:
  struct Sums;
  Sums sums_at(double beta) const;
  Calibration calibration_at(double beta) const;

  int64_t classes_ = 0;
  std::vector<float> logits_;  // (n, classes)
  std::vector<int64_t> labels_;
};

}  // namespace whisker
