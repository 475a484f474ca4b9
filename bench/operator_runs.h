// The operators that bench_operators times, each over operands of its own in bf16 on the first GPU.
#pragma once

#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

#include <cstdint>
#include <functional>

namespace whisker::bench {

inline constexpr Device gpu{DeviceKind::cuda, 0};

/// An operator over operands of its own.
struct Run {
  std::function<void()> run;
  int64_t bytes = 0;        // of its operands and results
  int64_t bytes_again = 0;  // of those that two passes read
};

/// Max-pooling.
Run max_pool(const Shape& x, const Pool2dOptions& options, bool backward);

enum class Part { train, inference, backward };
/// With relu behind it; `residual` as at the end of a residual block.
Run batch_norm(const Shape& x, Part part, bool residual);

/// Backward of a norm with silu whose result squeeze-and-excitation scales; `fused`: the norm
/// computes its dy from the factors and the mean's gradient, else it is written out.
Run squeeze_excite_backward(const Shape& x, bool fused);

/// The end of a residual block with a projection, whose result two layers read; `fused`: as one
/// operator.
Run add_batch_norms(const Shape& x, bool backward, bool fused);

/// With relu between, as a residual network begins; two layers read the result.
Run batch_norm_max_pool(const Shape& x, const Pool2dOptions& options, bool backward, bool fused);

}  // namespace whisker::bench
