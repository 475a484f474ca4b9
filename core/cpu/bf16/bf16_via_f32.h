// bf16 via f32: operands are converted to f32 scratch tensors, the f32 kernel runs, results are
// rounded back. Other dtypes are refused by name.
#pragma once

#include "core/autograd/autograd.h"
#include "core/cpu/backend_class.h"
#include "core/cpu/support/element.h"

#include <type_traits>
#include <utility>
#include <vector>

namespace whisker::cpu {

/// True for f32, false for bf16; throws usage, naming `op`, for the others.
inline bool in_f32(const char* op, const Tensor& x) {
  return visit_element(op, x.dtype(), []<class T>() { return std::is_same_v<T, float>; });
}

/// f32 stand-ins for the bf16 operands of one call.
class Widened {
 public:
  explicit Widened(CpuBackend& backend) : backend_(&backend) {}

  Tensor in(const Tensor& x) {
    if (!narrow(x)) return x;
    const Tensor wide = stand_in(x);
    backend_->cast(x, wide);
    return wide;
  }
  Tensor out(const Tensor& y) {
    if (!narrow(y)) return y;
    results_.emplace_back(stand_in(y), y);
    return results_.back().first;
  }
  /// An operand that is read and written.
  Tensor in_out(const Tensor& y) {
    if (!narrow(y)) return y;
    results_.emplace_back(in(y), y);
    return results_.back().first;
  }
  void finish() {
    for (const auto& [wide, y] : results_) backend_->cast(wide, y);
  }

 private:
  static bool narrow(const Tensor& x) { return x.defined() && x.dtype() == DType::bf16; }
  static Tensor stand_in(const Tensor& x) {
    const MemoryScope scope(MemoryCategory::workspace);
    return empty(x.shape(), {.dtype = DType::f32, .device = x.device()});
  }

  CpuBackend* backend_;
  std::vector<std::pair<Tensor, Tensor>> results_;
};

template <class Fn>
void widened(CpuBackend& backend, Fn&& fn) {
  Widened t(backend);
  {
    const MemoryScope scope(MemoryCategory::workspace);  // of private forms of stand-ins, too
    fn(t);
  }
  t.finish();
}

template <class Geometry>
Geometry as_f32(Geometry g) {
  g.dtype = DType::f32;
  return g;
}

}  // namespace whisker::cpu
