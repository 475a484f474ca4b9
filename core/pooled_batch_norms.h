// A batch norm and the max-pooling behind it, as a residual network begins, for backends that have
// kernels over both: Backend::pooled_batch_norms(). docs/cuda.md, "Pooled batch norms", says what
// that spares.
#pragma once

// Note [Winners before normalising]
// z = x scale + shift never falls as x grows where gamma is above 0, and never rises where it is
// below; the activation never falls. So the largest f(z) of a window is that of its largest x, of
// its smallest x where gamma is below 0, and nobody has to normalise the others. Rounding is
// monotone, too: the result has the bits that pooling what was normalised gives. A NaN wins, the
// first of equal x does. Elements whose f(z) are equal though they are not (by rounding, by relu,
// or all of them where gamma is 0) are told apart by x, while pooling alone takes the first: both
// are subgradients of the maximum, and what relu makes 0 gets no gradient either way.

#include "core/device.h"
#include "core/training_norm.h"

namespace whisker {

/// The elements of x that won their windows. Both undefined where no backward pass will follow.
struct PoolWinners {
  Tensor x;       // (N, h_out, w_out, C), as x
  Tensor places;  // (N, h_out, w_out, C), u8: where in the window, row by row
};

/// relu or nothing, as the norm says, comes between. See Note [Winners before normalising].
class PooledBatchNorms {
 public:
  virtual ~PooledBatchNorms() = default;

  /// y (N, h_out, w_out, C) = the largest f(norm of x) of each window, with the statistics of the
  /// batch and what becomes of the running ones.
  virtual void normalise(const TrainingNorm& norm, const Pool2dGeometry& pool,
                         const PoolWinners& winners, const Tensor& y) = 0;
  /// norm.x is undefined when gradients.dx is, dy.second unless adds_gradient_parts().
  virtual void backward(const TrainingNorm& norm, const Pool2dGeometry& pool,
                        const PoolWinners& winners, const GradientParts& dy,
                        const NormGradients& gradients) = 0;
};

/// True for the windows that they take: squares of 2 or 3 with strides of 2, none of them beyond
/// the picture altogether.
constexpr bool takes_batch_norm(const Pool2dGeometry& pool) {
  return pool.kind == PoolKind::max && (pool.is_square(2, 2) || pool.is_square(3, 2)) &&
         pool.all_see_picture();
}

/// True for devices that have them; shapes and memory are also planned where the device is not.
constexpr bool has_pooled_batch_norms(DeviceKind device) {
  return device != DeviceKind::cpu;
}

}  // namespace whisker
