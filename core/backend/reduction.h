// The kernels of reductions over axes.
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/tensor.h"

namespace whisker {

class ReductionKernels {
 public:
  virtual ~ReductionKernels() = default;

  virtual void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) = 0;
  /// y = the sums of a * b over the reduced axes of both.
  virtual void sum_products(const ReduceGeometry& g, const Tensor& a, const Tensor& b,
                            const Tensor& y) = 0;
  /// First position (i64) of the largest element along the middle axis; a NaN counts as the
  /// largest.
  virtual void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) = 0;
};

}  // namespace whisker
