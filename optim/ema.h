// Exponential moving average of the weights (Polyak and Juditsky 1992): kept beside the arena,
// swapped in for validation and saving. Buffers are no averages: the running statistics of batch
// norms go with the live weights, and those of the averaged ones have to be measured while they are
// live (train/loop/average_statistics.h).
#pragma once

#include "core/parameters/parameters.h"

#include <vector>

namespace whisker {

class WeightAverage {
 public:
  /// Starts as a copy of the current values. `decay` in (0, 1); with `warmup`, early steps use
  /// min(decay, (1 + n) / (10 + n)) so that the random start is forgotten.
  WeightAverage(ParameterArena& arena, double decay, bool warmup = true);

  /// After each optimizer step. Does nothing when *applies (in device memory) is 0.
  void update(const int32_t* applies = nullptr);
  /// The live buffers become the average's as well, until it is given others.
  void copy_buffers();
  /// Exchanges the average and the live values, and the buffers of each; call twice to undo.
  void swap();

  const Tensor& flat() const { return average_; }
  /// Updates done so far; part of a checkpoint. Both wait for the device.
  int64_t updates() const { return static_cast<int64_t>(updates_.item()); }
  void set_updates(int64_t updates) { updates_.fill_(static_cast<double>(updates)); }

 private:
  ParameterArena& arena_;
  double decay_;
  bool warmup_;
  Tensor updates_;  // i64 (), on the device
  Tensor average_;
  std::vector<Tensor> buffers_;  // of the averaged weights, in the arena's order
};

/// The averaged weights are live while one exists.
class AverageScope {
 public:
  explicit AverageScope(WeightAverage* average) : average_(average) {
    if (average_) average_->swap();
  }
  ~AverageScope() {
    if (average_) average_->swap();
  }
  AverageScope(const AverageScope&) = delete;
  AverageScope& operator=(const AverageScope&) = delete;

 private:
  WeightAverage* average_;
};

}  // namespace whisker
