// One convolution pass as a request (ConvolutionRequest) and an algorithm that computes it
// (ConvolutionAlgorithm): an engine of cuDNN or an own kernel.
#pragma once

#include "core/backend/convolution_pass.h"
#include "core/cuda/autotune/algorithm.h"

#include <cstdint>
#include <memory>
#include <string>

namespace whisker::cuda {

/// What to compute.
///
/// Note [Fused conv + norm]
/// Requests fused with the batch norms around them, without bias or activation: own kernels, for
/// depthwise convolutions alone. A forward request with `sums` also computes the channel sums for
/// the batch_norm behind it (SummedOutput in core/backend/fused_ops.h). A `normalised` request
/// reads f(norm of x) in place of x, in a forward pass (then with sums) and in that of the weights.
/// A normalised backward_input pass continues through f and computes the batch_norm's own
/// gradients. It writes dz to x, and slope and shift of dx = scale dz + slope (norm.x - mean) +
/// shift for the norm's own second pass. With x null it only adds up.
///
/// Note [Epilogues]
/// A forward request applies the geometry's bias and activation, with a `residual` added between
/// the two and, when `pooled`, max-pooling of 2x2 windows with stride 2 behind them. A
/// backward_weights request with a bias also computes db; with an activation it reads dy and the
/// activation's result, when pooled those of the pooled image and argmax
/// (core/cuda/ops/launchers.h). A backward_input request has no epilogue.
struct ConvolutionRequest {
  ConvolutionPass pass = ConvolutionPass::forward;
  Conv2dGeometry geometry = {};
  bool pooled = false;
  bool residual = false;
  bool tf32 = false;  ///< f32 operands may be rounded to tf32
  bool sums = false;  ///< see Note [Fused conv + norm], as is the next
  bool normalised = false;

  bool has_epilogue() const {
    return geometry.bias || geometry.activation.kind != Activation::none || pooled || residual;
  }
  /// This pass without its epilogue.
  ConvolutionRequest plain() const;
  bool operator==(const ConvolutionRequest&) const = default;

  /// Text that identifies the request: the key of the autotune table.
  std::string describe() const;
  size_t hash() const;
};

/// The batch norm with its activation that a convolution applies to the image it reads; f32 (C)
/// each, mean null: there is none.
struct ImageNorm {
  const float *mean = nullptr, *inv_std = nullptr, *gamma = nullptr, *beta = nullptr;
  ActivationSpec activation = {};  ///< one that a batch_norm computes
};

/// What the input's gradient of a normalised request reads and writes besides; f32 (C) each but x.
struct NormGradients {
  const void* x = nullptr;  ///< what the batch_norm reads, shaped as x
  float *dgamma = nullptr, *dbeta = nullptr;
  float *slope = nullptr, *shift = nullptr;  ///< written by the depthwise kernels
};

/// Memory of one pass. Forward: reads x, w, b; writes y. backward_input: reads w, y; writes x.
/// backward_weights: reads x, y; writes w. All 16-byte aligned. Shapes: core/backend/geometry.h.
struct ConvolutionOperands {
  void* x = nullptr;
  void* w = nullptr;
  void* b = nullptr;               ///< (c_out) or null; written in a weights' pass
  void* y = nullptr;               ///< the result, or its gradient
  const void* output = nullptr;    ///< weights' pass with an activation: its result, shaped as y
  const void* residual = nullptr;  ///< where the request has one, shaped as y
  float* sums = nullptr;           ///< where the request has sums: see SummedOutput
  ImageNorm norm = {};             ///< where it is normalised, as the next
  NormGradients norm_gradients = {};
  void* argmax = nullptr;  ///< pooled: u8, shaped as y; null when no gradient will follow
};

using ConvolutionAlgorithm = Algorithm<ConvolutionOperands>;
using ConvolutionAlgorithmPointer = std::unique_ptr<ConvolutionAlgorithm>;

/// The direct kernel for `request`, bias and activation included: any geometry, f32 sums in a fixed
/// order, slow. Null where unsupported: pooling, residuals, fused norms, a gradient with an
/// epilogue.
ConvolutionAlgorithmPointer direct_convolution(const ConvolutionRequest& request);

/// The kernels for one filter per channel, bias and activation of a forward pass included: square
/// windows of 3, 5 or 7 with strides of 1 or 2, and channels that fill packs of 16 bytes. Null for
/// others.
ConvolutionAlgorithmPointer depthwise_convolution(const ConvolutionRequest& request,
                                                  const KernelSite& site);

}  // namespace whisker::cuda
