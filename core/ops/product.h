// The matrix product with transposed operands, from which matmul and the second derivative of
// linear are made.
#pragma once

#include "core/tensor/tensor.h"

namespace whisker {

/// op(a) op(b) over broadcast leading axes; a is stored (..., k, m) when transpose_a, b is stored
/// (..., n, k) when transpose_b. Recorded; differentiable to any order.
Tensor product(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b);

}  // namespace whisker
