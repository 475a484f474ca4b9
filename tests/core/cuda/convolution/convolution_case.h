// One convolution for tests on the GPU: its shapes and options, its uses, and the types it is
// tested in.
#pragma once

#include "core/ops/ops.h"
#include "tests/support/agreement.h"

#include <cstdint>
#include <vector>

namespace whisker::test {

using Operands = const std::vector<Tensor>&;

inline constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr ActivationSpec relu_spec{.kind = Activation::relu};

struct ConvolutionCase {
  Shape x, w;
  Conv2dOptions options;
};

inline int64_t longest_sum(const ConvolutionCase& c) {
  return c.x[0] * c.x[1] * c.x[2] + c.w.count();
}

/// The operator with gradients of all operands, and as a first layer: none of its images.
inline std::vector<TensorFunction> uses_of(const ConvolutionCase& c) {
  return {[&](Operands x) { return conv2d(x[0], x[1], x[2], c.options); },
          [&](Operands x) { return conv2d(x[0].detach(), x[1], x[2], c.options); }};
}

}  // namespace whisker::test
