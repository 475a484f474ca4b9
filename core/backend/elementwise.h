// The kernels that work element by element.
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/operands.h"

namespace whisker {

/// Whether a op b holds.
template <class T>
constexpr bool compares(CompareOp op, T a, T b) {
  switch (op) {
    case CompareOp::equal:
      return a == b;
    case CompareOp::not_equal:
      return a != b;
    case CompareOp::less:
      return a < b;
    case CompareOp::less_equal:
      return a <= b;
    case CompareOp::greater:
      return a > b;
    case CompareOp::greater_equal:
      return a >= b;
  }
  return false;
}

struct BinaryInputs {
  const Tensor& a;
  const Tensor& b;

  BinaryInputs map(auto&& fn) const { return {fn(a), fn(b)}; }
};

struct ActivationSecondInputs {
  const Tensor& saved;  ///< as activation_backward's
  const Tensor& dy;
  const Tensor& v;

  ActivationSecondInputs map(auto&& fn) const { return {fn(saved), fn(dy), fn(v)}; }
};

class ElementwiseKernels {
 public:
  virtual ~ElementwiseKernels() = default;

  virtual void fill(double value, const Tensor& y) = 0;
  /// Conversion rules: core/tensor/convert.h.
  virtual void cast(const Tensor& x, const Tensor& y) = 0;
  virtual void unary(const UnarySpec& spec, const Tensor& x, const Tensor& y) = 0;
  /// y may be the operand that is not broadcast.
  virtual void binary(BinaryOp op, const BroadcastGeometry& g, const BinaryInputs& in,
                      const Tensor& y) = 0;
  /// sum += term, same shape.
  virtual void accumulate(const Tensor& term, const Tensor& sum) = 0;
  /// y is bool.
  virtual void compare(CompareOp op, const BroadcastGeometry& g, const BinaryInputs& in,
                       const Tensor& y) = 0;
  /// y = condition (bool) ? a : b, all of one shape.
  virtual void where(const Tensor& condition, const Tensor& a, const Tensor& b,
                     const Tensor& y) = 0;
  virtual void activation(ActivationSpec f, const Tensor& x, const Tensor& y) = 0;
  /// dx = f' dy; `saved` is y where grad_from_output, else x. dx may be dy.
  virtual void activation_backward(ActivationSpec f, const Tensor& saved, const Tensor& dy,
                                   const Tensor& dx) = 0;
  /// out = f'' dy v: the derivative of activation_backward by x, for double backward.
  virtual void activation_second(ActivationSpec f, const ActivationSecondInputs& in,
                                 const Tensor& out) = 0;
  /// y = x / (1 - rate) where dropout_keeps(key, element index), else 0: see
  /// core/backend/dropout_mask.h.
  virtual void dropout(double rate, const RandomKey& key, const Tensor& x, const Tensor& y) = 0;
};

}  // namespace whisker
