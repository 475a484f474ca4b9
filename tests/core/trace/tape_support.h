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

/// Names every recorded operator, and every node that backward ran.
struct Listing final : TapeObserver {
  Listing() { grad_mode.observer = this; }
  ~Listing() override { grad_mode.observer = nullptr; }
  void on_save(const Tensor& x) override { pending_bytes += x.bytes(); }
  void on_record(const Node& node, Tensors, Tensors) override {
    recorded.emplace_back(node.name());
    saved_bytes.push_back(std::exchange(pending_bytes, 0));
  }
  void on_unrecorded(const char*, Tensors, Tensors) override { pending_bytes = 0; }
  void on_backward_begin(const Node& node) override { ran.emplace_back(node.name()); }

  std::vector<std::string> recorded, ran;
  std::vector<int64_t> saved_bytes;
  int64_t pending_bytes = 0;
};

}  // namespace whisker
