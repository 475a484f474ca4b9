// Convolutions that do parts of the batch norms before and behind them, for backends that have such
// kernels: Backend::convolution_chains(). docs/cuda.md, "Chains", says what is joined and why.
#pragma once

#include "core/backend.h"
#include "core/geometry.h"
#include "core/tensor.h"

namespace whisker {

/// A batch's statistics, (channels) each, f32.
struct BatchStatistics {
  Tensor mean;
  Tensor variance;  ///< biased; not wanted where undefined
  Tensor inverse_deviation;
};

/// The batch_norm in front of a convolution: relu((x - mean) inverse_deviation gamma + beta), at
/// the end of a block with the residual added before relu.
struct InputNorm {
  BatchNormGeometry geometry;  ///< of x, with relu
  Tensor gamma, beta;          ///< (C)
  Tensor residual = {};        ///< as x, or undefined
  BatchStatistics statistics = {};
  Tensor folded = {};  ///< (2, C), as x: what x is multiplied with and what is added to that
};

/// Gradients of a convolution behind a batch_norm; undefined ones are not wanted.
struct InputNormGradients {
  Tensor dx, dgamma, dbeta;
  Tensor dw = {};
  Tensor dresidual = {};
};

/// Geometries have neither bias nor activation. Sums are f32 (2, channels): of a tensor and of its
/// squares over all but the channels.
class ConvolutionChains {
 public:
  virtual ~ConvolutionChains() = default;

  /// Computes y and its sums. False, with nothing done, where that is not known to be faster than
  /// conv2d and the pass over y that batch_norm makes otherwise.
  virtual bool convolve(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& y,
                        const Tensor& sums) = 0;
  /// What batch_norm_train finds out about x, from its sums, or from x itself without.
  virtual void statistics(const BatchNormGeometry& g, const Tensor& x, const Tensor& sums,
                          const BatchStatistics& out, const RunningStatistics& running) = 0;
  /// True where the two methods below are known to be faster, all passes taken together, than
  /// batch_norm and conv2d; at the end of a block, where block_end_backward() is.
  /// norm.statistics and norm.folded may be undefined here.
  virtual bool prefers_joined(const Conv2dGeometry& g, const Tensor& x, const Tensor& sums,
                              const InputNorm& norm, const Tensor& w) = 0;
  /// y = norm(x) * w and the sums of y; also writes norm.folded.
  virtual void convolve_normalised(const Conv2dGeometry& g, const Tensor& x, const InputNorm& norm,
                                   const Tensor& w, const Tensor& y, const Tensor& sums) = 0;
  virtual void convolve_normalised_backward(const Conv2dGeometry& g, const Tensor& x,
                                            const InputNorm& norm, const Tensor& w,
                                            const Tensor& dy, const InputNormGradients& out) = 0;
  /// Gradients of a block's end but for out.dw, which is conv2d_backward's to compute. dy is that
  /// of the convolution's result; `others`, as x, that of what else reads the batch_norm's.
  virtual void block_end_backward(const Conv2dGeometry& g, const Tensor& x, const InputNorm& norm,
                                  const Tensor& w, const Tensor& dy, const Tensor& others,
                                  const InputNormGradients& out) = 0;
};

}  // namespace whisker
