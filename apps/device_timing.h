// `whisker devices --check`: the same work on every device, timed, and whether the GPU is used.
#pragma once

#include "core/device.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

struct TimedOperator {
  std::string name;  ///< with its sizes
  /// Prepares inputs on a device; what it returns does the work once, without waiting for it.
  std::function<std::function<void()>(Device)> prepare;
};

/// A convolution, a matrix product and a sum of two large tensors, each in f32.
std::span<const TimedOperator> timed_operators();

/// Milliseconds of one run, the fastest of three rounds.
double time_on(Device device, const TimedOperator& op);

/// One sentence: that device: auto takes the GPU, the first of `count`, or why it does not.
std::string gpu_verdict(std::string_view why_not, int count);

}  // namespace whisker
