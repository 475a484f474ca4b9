// A gradient in two terms: see Note [Unsummed gradients] in core/autograd/gradients.h.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

/// A gradient as the sum of two tensors; without the second, the first alone.
struct UnsummedGrads {
  Tensor first, second;
};

}  // namespace whisker
