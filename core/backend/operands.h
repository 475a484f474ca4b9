// What the operand structs of the kernel families (normalization.h, convolution.h, ...) have in
// common. They hold references, as they live for one call, and are filled by designated
// initialisers; what is read and what is written stand in different structs. Their map(fn) is the
// same struct with each tensor replaced by what fn returns for it, a reference as well. Those of
// fused_ops.h and recurrent_operands.h, and NormGrads, own their tensors instead.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

/// An operand that is not there.
inline constinit const Tensor no_tensor;

/// What a dense layer or a convolution multiplies and adds.
struct AffineInputs {
  const Tensor& x;
  const Tensor& w;
  const Tensor& b = no_tensor;         ///< where g.bias
  const Tensor& residual = no_tensor;  ///< of conv2d alone: shaped as y

  AffineInputs map(auto&& fn) const { return {fn(x), fn(w), fn(b), fn(residual)}; }
};

/// What its backward pass reads of forward's tensors. x is undefined when dw is, w when dx is.
struct AffineSaved {
  const Tensor& x;
  const Tensor& w;
  const Tensor& y = no_tensor;  ///< carries the activation's derivative; undefined without one

  AffineSaved map(auto&& fn) const { return {fn(x), fn(w), fn(y)}; }
};

/// Each is computed when defined.
struct AffineGrads {
  const Tensor& dx = no_tensor;
  const Tensor& dw = no_tensor;
  const Tensor& db = no_tensor;

  AffineGrads map(auto&& fn) const { return {fn(dx), fn(dw), fn(db)}; }
};

}  // namespace whisker
