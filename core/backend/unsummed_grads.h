// A gradient in two terms: see Note [Unsummed gradients] in core/autograd/gradients.h.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

/// A gradient as the sum of two tensors; without the second, the first alone. With a factor it is
/// first * factor + second, where first is (N,H,W,C), factor and second (N,1,1,C).
template <class Handle>
struct BasicUnsummedGrads {
  Handle first, second;
  Handle factor = {};

  auto map(auto&& fn) const {
    return BasicUnsummedGrads<decltype(fn(first))>{fn(first), fn(second), fn(factor)};
  }
};
using UnsummedGrads = BasicUnsummedGrads<Tensor>;

}  // namespace whisker
