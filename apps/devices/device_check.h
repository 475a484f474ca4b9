// `whisker devices --check`: a few operators computed on a device and compared with the reference.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct CheckedOperator {
  std::string name;
  std::vector<Shape> inputs;  ///< normal values; every one gets a gradient
  std::function<Tensor(std::span<const Tensor>)> apply;
  int64_t terms = 1;  ///< length of the longest sum, forward or backward
};

/// conv2d, linear, batch_norm, softmax.
std::span<const CheckedOperator> checked_operators();

struct DeviceCheck {
  std::string name;
  double error = 0;      ///< largest |got - f64 reference| / largest |reference|, over the result
                         ///< and all gradients; NaN counts as infinite
  double tolerance = 0;  ///< 8 u (1 + sqrt(terms)), u = 2^-24 (Higham and Mary 2019)
  double milliseconds = 0;  ///< forward and backward, the fastest of five
  bool passed() const { return error <= tolerance; }
};

/// Runs `op` in f32 on `device`.
DeviceCheck check_on(Device device, const CheckedOperator& op);

}  // namespace whisker
