// A training step of whatever `whisker study` is asked about.
#pragma once

#include "core/tensor/device.h"
#include "core/trace/step_recorder.h"

#include <cstdint>
#include <functional>
#include <string>

namespace whisker {

/// A training step that runs as often as it is asked for.
struct StudyStep {
  std::string title;
  std::string assumed = {};  ///< about its values, a line; "" of a formula
  Device device = {};
  DType dtype = DType::f32;  ///< that it computes in
  std::function<void(StepObserver&)> run = {};
  std::function<void()> add_optimizer = {};  ///< before the first update; none of a formula
  std::function<void()> update = {};
  int64_t predicted_bytes = 0;  ///< what `summary` predicts; 0 of a formula
};

}  // namespace whisker
