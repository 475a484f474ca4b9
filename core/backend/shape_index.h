// The kernels that move elements about and pick them by index (i64).
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/tensor.h"

namespace whisker {

class ShapeIndexKernels {
 public:
  virtual ~ShapeIndexKernels() = default;

  /// Any dtype (both alike); elements of y outside the walk stay. With `add`, y += x (floating).
  virtual void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) = 0;
  virtual void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
                      const Tensor& y) = 0;
  /// dx = sum of dy over the picks; dx is overwritten.
  virtual void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                               const Tensor& dx) = 0;
  /// y (picks, features) = table (entries, features) rows at index (picks).
  virtual void embedding(const Tensor& table, const Tensor& index, const Tensor& y) = 0;
  virtual void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) = 0;
  /// y (..., classes).
  virtual void one_hot(const Tensor& index, const Tensor& y) = 0;
};

}  // namespace whisker
