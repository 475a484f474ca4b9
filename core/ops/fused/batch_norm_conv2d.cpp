// A batch_norm with its activation and the convolution behind it as one operator, for devices whose
// convolutions normalise what they read. Only x, what the convolution before left, is kept.
#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/ops/checks.h"
#include "core/ops/norm.h"
#include "core/ops/window.h"

namespace whisker {
namespace {

/// The kernels of the fused operator and what they are given; null kernels: it runs unfused.
struct FusedCall {
  FusedConvNorm* kernels = nullptr;
  Conv2dGeometry convolution;
  TrainingNorm norm;
};

FusedCall fused_call(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                     const Conv2dOptions& options) {
  FusedConvNorm* const kernels = backend_of(x.device()).fused_conv_norm();
  const bool fits = norm.options.fusible() && !norm.residual.defined() &&
                    batch_norm_computes(norm.options.activation, true) &&
                    options.activation.kind == Activation::none && !options.max_pool;
  if (!kernels || !fits) return {};
  check_alike("batch_norm_conv2d", "x", x, "w", w);
  const Conv2dGeometry convolution =
      conv2d_geometry(x.shape(), w.shape(), false, options, x.dtype());
  if (!kernels->takes_norm(convolution)) return {};
  FusedCall call{.kernels = kernels, .convolution = convolution, .norm = checked_norm(x, norm)};
  if (norm.gamma.dtype() != DType::f32) call.kernels = nullptr;
  return call;
}

}  // namespace

bool batch_norm_conv2d_is_fused(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                                const Conv2dOptions& options) {
  return fused_call(x, norm, w, options).kernels != nullptr;
}

Convolved batch_norm_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                            const Conv2dOptions& options) {
  FusedCall call = fused_call(x, norm, w, options);
  if (!call.kernels) {
    const Tensor y = batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, norm.residual);
    return conv2d_with_sums(y, w, options);
  }
  prepare_training(call.norm, norm);
  const Conv2dGeometry& geometry = call.convolution;
  call.kernels->statistics(call.norm);
  note_pending(call.norm.running);
  const Convolved result{
      .y = empty({geometry.n, geometry.h_out, geometry.w_out, geometry.c_out}, x.options()),
      .sums = empty({3, geometry.c_out}, {.device = x.device()})};
  call.kernels->convolve_normalised(geometry, call.norm, w, {.y = result.y, .sums = result.sums});
  if (op_attributes) {
    *op_attributes = fmt::format("{}, {}", attributes_of(norm.options), attributes_of(geometry));
  }
  record(
      "batch_norm_conv2d", {&x, &norm.gamma, &norm.beta, &w}, result.y,
      [kernels = call.kernels, geometry, norm = SavedNorm(call.norm), w = save(w)](Gradients& g) {
        g.no_double_backward();
        kernels->convolve_normalised_backward(
            geometry, norm(g), w(g),
            {.dy = g.dy(), .norm = wanted_gradients(g, 0), .dw = g.grad_buffer_if_needed(3)});
      });
  return result;
}

}  // namespace whisker
