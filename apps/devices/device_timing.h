// `whisker devices --check`: times the same work on every device, and reports whether the GPU is
// used.
#pragma once

#include "core/tensor/device.h"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace whisker {

struct TimedOperator {
  std::string name;  ///< with its sizes
  /// Prepares inputs on a device; returns a function that enqueues the work once.
  std::function<std::function<void()>(Device)> prepare;
};

/// A convolution, a gemm and a sum of two large tensors, each in f32.
std::span<const TimedOperator> timed_operators();

/// Milliseconds of one run, the fastest of three rounds.
double time_on(Device device, const TimedOperator& op);

/// One sentence: that `device: auto` selects the first of `count` GPUs, or why not.
std::string gpu_verdict(std::string_view why_not, int count);

}  // namespace whisker
