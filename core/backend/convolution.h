// The kernels of convolutions: x (N, H, W, C), w (c_out, kernel_h, kernel_w, C / groups), b
// (c_out), y (N, h_out, w_out, c_out).
#pragma once

#include "core/backend/geometry.h"
#include "core/backend/kernel_workspace.h"
#include "core/backend/operands.h"

namespace whisker {

class ConvolutionKernels {
 public:
  virtual ~ConvolutionKernels() = default;

  /// What the kernels below will take, backward for `dx` and `dw` as asked for: the most of all
  /// algorithms that are timed. 0 where that is not known before they run.
  virtual KernelWorkspace conv2d_workspace(const Conv2dGeometry& /*g*/, bool /*dx*/, bool /*dw*/) {
    return {};
  }

  /// y = f(x * w + b + in.residual); without a residual where it is undefined.
  virtual void conv2d(const Conv2dGeometry& g, const AffineInputs& in, const Tensor& y) = 0;
  virtual void conv2d_backward(const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                               const AffineGrads& out) = 0;
};

struct ConvPoolGeometry {
  Conv2dGeometry conv;  ///< with an activation for which is_monotonic() holds
  Pool2dGeometry pool;
};

/// What backward reads: as AffineSaved, and forward's workspace. y is that of the windows.
struct ConvPoolSaved {
  const Tensor& x;
  const Tensor& w;
  const Tensor& y = no_tensor;
  const Tensor& workspace;
};

/// Convolution, activation and max-pooling at once, for backends that have such kernels.
class ConvPoolKernels {
 public:
  virtual ~ConvPoolKernels() = default;

  /// False where the operator is to run unfused.
  virtual bool takes(const ConvPoolGeometry& g) = 0;
  /// y (N, pool.h_out, pool.w_out, c_out) = f(largest of each window of x * w + b). `workspace`
  /// (u8) is as PoolingKernels' for g.pool.
  virtual void forward(const ConvPoolGeometry& g, const AffineInputs& in, const Tensor& y,
                       const Tensor& workspace) = 0;
  virtual void backward(const ConvPoolGeometry& g, const ConvPoolSaved& saved, const Tensor& dy,
                        const AffineGrads& out) = 0;
};

}  // namespace whisker
