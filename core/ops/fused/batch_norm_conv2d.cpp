// A batch_norm with its activation and the convolution behind it as one operator, for devices whose
// convolutions do parts of the batch_norm. Without a residual only x, what the convolution before
// left, is kept; with one, which others read, too, only backward is fused.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/convolution.h"
#include "core/ops/checks.h"
#include "core/ops/conv2d.h"
#include "core/ops/norm.h"

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
  const bool fits = norm.options.fusible() && batch_norm_computes(norm.options.activation, true) &&
                    options.activation.kind == Activation::none && !options.max_pool;
  if (!kernels || !fits) return {};
  check_alike("batch_norm_conv2d", "x", x, "w", w);
  FusedCall call{.kernels = kernels,
                 .convolution = conv2d_geometry(x.shape(), w.shape(), false, options, x.dtype()),
                 .norm = checked_norm(x, norm)};
  if (!kernels->prefers_fused(call.convolution, call.norm, w)) return {};
  return call;
}

ResidualTail unfused(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                     const Conv2dOptions& options) {
  const Tensor y = batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, norm.residual);
  return {.y = y, .convolved = conv2d_with_sums(y, w, options)};
}

}  // namespace

bool batch_norm_conv2d_is_fused(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                                const Conv2dOptions& options) {
  return fused_call(x, norm, w, options).kernels != nullptr;
}

Convolved batch_norm_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                            const Conv2dOptions& options) {
  if (norm.residual.defined()) return batch_norm_add_conv2d(x, norm, w, options).convolved;
  FusedCall call = fused_call(x, norm, w, options);
  if (!call.kernels) return unfused(x, norm, w, options).convolved;
  prepare_training(call.norm, norm);
  const Conv2dGeometry& geometry = call.convolution;
  call.norm.folded = empty({2, geometry.c}, x.options());
  call.kernels->statistics(call.norm);
  note_pending(call.norm.running);
  Convolved result{
      .y = empty({geometry.n, geometry.h_out, geometry.w_out, geometry.c_out}, x.options()),
      .sums = empty({sum_rows(geometry, true), geometry.c_out}, {.device = x.device()})};
  if (!call.kernels->convolve_normalised(geometry, call.norm, w,
                                         {.y = result.y, .sums = result.sums})) {
    result.sums = {};
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

ResidualTail batch_norm_add_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                                   const Conv2dOptions& options) {
  FusedCall call = fused_call(x, norm, w, options);
  if (!call.kernels || !norm.residual.defined()) return unfused(x, norm, w, options);
  prepare_training(call.norm, norm);
  const Tensor y = normalise_batch(call.norm);
  const ResidualTail result{.y = y, .convolved = convolve_with_sums(call.convolution, y, w)};
  const Tensor* const inputs[] = {&x, &norm.gamma, &norm.beta, &norm.residual, &w};
  const Tensor* const outputs[] = {&result.y, &result.convolved.y};
  record("batch_norm_add_conv2d", inputs, outputs,
         [kernels = call.kernels, geometry = call.convolution, norm = SavedNorm(call.norm),
          w = save(w), y = save_output(y)](Gradients& g) {
           g.no_double_backward();
           NormGrads wanted = wanted_gradients(g, 0);
           wanted.dresidual = g.grad_buffer_if_needed(3);
           kernels->convolve_normalised_backward(
               geometry, norm(g), w(g), {.dy = g.dy(1), .others = g.dy(0), .norm = wanted});
           const Tensor dw = g.grad_buffer_if_needed(4);
           if (!dw.defined()) return;
           backend_of(dw.device())
               .convolution()
               .conv2d_backward(geometry, {.x = y(g), .w = w(g)}, g.dy(1), {.dw = dw});
         });
  return result;
}

}  // namespace whisker
