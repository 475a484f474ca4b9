// bf16 through f32, for kernels that exist in f32 alone: operands are widened to stand-ins, the f32
// kernel runs, results are rounded back. Also where dtypes that the CPU does not compute in are
// refused by name.
#pragma once

#include "core/backend/backend.h"
#include "core/cpu/support/element.h"
#include "core/tensor/tensor.h"

#include <exception>
#include <list>
#include <optional>
#include <type_traits>
#include <utility>

namespace whisker::cpu {

/// True for f32, false for bf16; throws usage, naming `op`, for the others.
inline bool in_f32(const char* op, const Tensor& x) {
  return visit_element(op, x.dtype(), []<class T>() { return std::is_same_v<T, float>; });
}

template <class Geometry>
Geometry as_f32(Geometry g) {
  g.dtype = DType::f32;
  return g;
}

/// f32 stand-ins for the bf16 operands of one call: of tensors, and of whole operand structs. What
/// is f32 stands for itself. The end of the scope rounds the results, unless an exception ends it.
class ViaF32 {
 public:
  /// `op`: the kernel that computes; x: one of its operands.
  ViaF32(Backend& backend, const char* op, const Tensor& x) : backend_(backend) {
    if (!in_f32(op, x)) scope_.emplace(MemoryCategory::workspace);
  }
  ~ViaF32() noexcept(false);
  ViaF32(const ViaF32&) = delete;
  ViaF32& operator=(const ViaF32&) = delete;

  const Tensor& in(const Tensor& x);
  const Tensor& out(const Tensor& y);
  /// An operand that is read and written.
  const Tensor& in_out(const Tensor& y);
  template <class Operands>
  Operands in(const Operands& operands) {
    return operands.map([this](const Tensor& x) -> const Tensor& { return in(x); });
  }
  template <class Operands>
  Operands out(const Operands& operands) {
    return operands.map([this](const Tensor& y) -> const Tensor& { return out(y); });
  }

 private:
  Backend& backend_;
  const int exceptions_ = std::uncaught_exceptions();
  std::optional<MemoryScope> scope_;              // of stand-ins and their private forms
  std::list<Tensor> inputs_;                      // given up before the results are cast
  std::list<std::pair<Tensor, Tensor>> results_;  // stand-in, result
};

}  // namespace whisker::cpu
