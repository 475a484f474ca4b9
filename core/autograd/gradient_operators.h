// The operators that backward itself applies to gradients; core/ops defines them, as all others.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

Tensor add(const Tensor& a, const Tensor& b);
Tensor broadcast_to(const Tensor& x, const Shape& shape);

}  // namespace whisker
