// Short forms for the tape's tests: f64 tensors on the reference device, and what was recorded.
#pragma once

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/support/error_of.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace whisker {

using test::error_of;

inline constexpr TensorOptions exact{.dtype = DType::f64, .device = reference_device};

inline Tensor leaf(std::initializer_list<double> values, const Shape& shape) {
  return from_vector(values, shape, exact).set_requires_grad();
}
inline Tensor leaf(std::initializer_list<double> values) {
  return leaf(values, {static_cast<int64_t>(values.size())});
}

inline std::vector<double> values(const Tensor& x) {
  return x.to_vector();
}

/// Names every node that backward ran.
struct Listing final : TapeObserver {
  Listing() { grad_mode.observer = this; }
  ~Listing() override { grad_mode.observer = nullptr; }
  void on_backward_begin(const Node& node) override { ran.emplace_back(node.name()); }

  std::vector<std::string> ran;
};

}  // namespace whisker
