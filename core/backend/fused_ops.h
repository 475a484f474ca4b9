// Kernels that compute a batch norm together with its neighbours. Where a backend has none, the
// operators in core/ops/fused/ run unfused. docs/internals/kernels.md says what each spares.
#pragma once

#include "core/backend/backend.h"
#include "core/backend/normalization.h"
#include "core/backend/unsummed_grads.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

namespace whisker {

/// A batch_norm in training: (x - mean) inv_std gamma + beta, then perhaps relu. A method
/// needs only the members that its comment names. Statistics are f32 (f64 of f64 x).
struct TrainingNorm {
  BatchNormGeometry geometry = {};  ///< of x
  Tensor x = {};
  Tensor gamma = {}, beta = {};    ///< (C)
  Tensor residual = {};            ///< as x: added before relu at the end of a block
  Tensor sums = {};                ///< forward: Convolved::sums of x, or undefined
  Tensor mean = {}, inv_std = {};  ///< (C); forward writes them
  Tensor variance = {};            ///< (C), biased: written from sums where defined
  RunningStatistics running = {};  ///< forward
};

/// A backward pass of a convolution behind a batch_norm.
struct ConvNormGradients {
  Tensor dy;  ///< of the convolution's result
  NormGrads norm = {};
  Tensor dw = {};  ///< computed when defined
};

/// True for the pointwise convolutions that normalise what they read: 16-bit types, whole packs of
/// channels, no more outputs than channels, and so few of both that all passes are bound by memory.
constexpr bool pointwise_takes_norm(const Conv2dGeometry& g) {
  const bool pointwise = g.kernel_h == 1 && g.kernel_w == 1 && g.stride_h == 1 && g.stride_w == 1 &&
                         g.groups == 1 && g.pad_top == 0 && g.pad_bottom == 0 && g.pad_left == 0 &&
                         g.pad_right == 0;
  const bool narrow = g.dtype == DType::bf16 || g.dtype == DType::f16;
  return pointwise && narrow && g.c % 8 == 0 && g.c_out % 8 == 0 && g.c_out <= g.c && g.c <= 240 &&
         g.c_out <= 80;
}

/// What a convolution leaves. Sums are f32 (3, channels): of y - shift and of its squares over all
/// but the channels, and the shift, near the mean, so that the variance does not cancel.
struct SummedOutput {
  const Tensor& y;
  const Tensor& sums;
};

/// Own kernels, of depthwise and pointwise convolutions. Geometries have neither bias nor
/// activation.
class FusedConvNorm {
 public:
  virtual ~FusedConvNorm() = default;

  /// Computes y and its sums, of a convolution of depthwise_takes_norm().
  virtual void convolve(const Conv2dGeometry& g, const AffineInputs& in,
                        const SummedOutput& out) = 0;
  /// Writes the statistics, what batch_norm_train finds out about x: from its sums, or from x
  /// itself without.
  virtual void statistics(const TrainingNorm& norm) = 0;
  /// True for the convolutions that the two methods below compute: those of depthwise_takes_norm(),
  /// and where the device has the instructions those of pointwise_takes_norm(). The norm's gamma
  /// and beta are f32, and it has no residual.
  virtual bool takes_norm(const Conv2dGeometry& g) = 0;
  /// y = norm(x) * w and the sums of y.
  virtual void convolve_normalised(const Conv2dGeometry& g, const TrainingNorm& norm,
                                   const Tensor& w, const SummedOutput& out) = 0;
  virtual void convolve_normalised_backward(const Conv2dGeometry& g, const TrainingNorm& norm,
                                            const Tensor& w,
                                            const ConvNormGradients& gradients) = 0;
};

struct AddNormsGradients {
  NormGrads first, second;
};

/// Both norms are of one shape and dtype, without residuals; relu or nothing, as `first` says,
/// follows the sum.
class FusedAddNorms {
 public:
  virtual ~FusedAddNorms() = default;

  /// y = f(first + second), with the statistics of both batches and what becomes of the running
  /// ones.
  virtual void normalise(const TrainingNorm& first, const TrainingNorm& second,
                         const Tensor& y) = 0;
  /// dy.second is undefined unless adds_unsummed_grads(). relu's slope follows from both tensors.
  virtual void backward(const TrainingNorm& first, const TrainingNorm& second,
                        const UnsummedGrads& dy, const AddNormsGradients& gradients) = 0;
};

// Note [Argmax before normalising]
// z = x scale + shift never falls as x grows where gamma is above 0, and never rises where it is
// below; the activation never falls. So the largest f(z) of a window is that of its largest x, of
// its smallest x where gamma is below 0, and the others need not be normalised. Rounding is
// monotone, too: the result has the bits of pooling after normalising. A NaN is taken before any
// number, and the first of equal x. Elements whose f(z) are equal though they are not (by rounding,
// by relu, or all of them where gamma is 0) are told apart by x, while pooling alone takes the
// first: both are subgradients of the maximum, and what relu makes 0 gets no gradient either way.

/// Windows, and x and position of each argmax. The tensors are undefined where no backward pass
/// will follow.
struct PoolArgmax {
  Pool2dGeometry geometry;
  Tensor x = {};          // (N, h_out, w_out, C), as x
  Tensor positions = {};  // (N, h_out, w_out, C), u8: where in the window, row by row
};

/// relu or nothing, as the norm says, comes between. See Note [Argmax before normalising].
class FusedNormPool {
 public:
  virtual ~FusedNormPool() = default;

  /// y (N, h_out, w_out, C) = the largest f(norm of x) of each window, with the statistics of the
  /// batch and what becomes of the running ones.
  virtual void normalise(const TrainingNorm& norm, const PoolArgmax& argmax, const Tensor& y) = 0;
  /// norm.x is undefined when gradients.dx is, dy.second unless adds_unsummed_grads().
  virtual void backward(const TrainingNorm& norm, const PoolArgmax& argmax, const UnsummedGrads& dy,
                        const NormGrads& gradients) = 0;
};

/// True for the windows that they take: squares of 2 or 3 with strides of 2, none of them beyond
/// the image altogether.
constexpr bool pool_takes_norm(const Pool2dGeometry& pool) {
  return pool.kind == PoolKind::max && (pool.is_square(2, 2) || pool.is_square(3, 2)) &&
         pool.all_see_image();
}

/// Kinds of devices that have these kernels: fusion is also planned where the device is not.
constexpr bool has_fused_kernels(DeviceKind device) {
  return device == DeviceKind::cuda;
}

}  // namespace whisker
