// The gemm kernels: matmul and the dense layer.
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/operands.h"

namespace whisker {

class GemmKernels {
 public:
  virtual ~GemmKernels() = default;

  virtual void matmul(const MatmulGeometry& g, const Tensor& a, const Tensor& b,
                      const Tensor& y) = 0;
  /// x (rows, in), w (out, in), b (out), y (rows, out).
  virtual void linear(const LinearGeometry& g, const AffineInputs& in, const Tensor& y) = 0;
  virtual void linear_backward(const LinearGeometry& g, const AffineSaved& saved, const Tensor& dy,
                               const AffineGrads& out) = 0;
};

}  // namespace whisker
