// The kernels of pooling: x (N, H, W, C), y (N, h_out, w_out, C).
#pragma once

#include "core/backend/geometry.h"
#include "core/tensor/tensor.h"

namespace whisker {

class PoolingKernels {
 public:
  virtual ~PoolingKernels() = default;

  /// Bytes of workspace that pool2d fills for backward (argmax of the windows); 0 when none.
  virtual int64_t workspace_bytes(const Pool2dGeometry& g) = 0;
  /// `workspace` (u8) is undefined when no backward pass will follow.
  virtual void pool2d(const Pool2dGeometry& g, const Tensor& x, const Tensor& y,
                      const Tensor& workspace) = 0;
  virtual void pool2d_backward(const Pool2dGeometry& g, const Tensor& workspace, const Tensor& dy,
                               const Tensor& dx) = 0;
};

}  // namespace whisker
