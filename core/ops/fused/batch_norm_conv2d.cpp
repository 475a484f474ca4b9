// A batch_norm with relu and the convolution behind it as one operator, for devices whose
// convolutions do parts of the batch_norm. Without a residual only x, what the convolution before
// left, is kept; with one, which others read, too, only backward is fused.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/backend/convolution.h"
#include "core/backend/fused_ops.h"
#include "core/ops/checks.h"
#include "core/ops/conv2d.h"
#include "core/ops/norm.h"

namespace whisker {
namespace {

/// The kernels of the fused operator and what they are given; null kernels: it runs unfused.
struct FusedCall {
  FusedConvNorm* kernels = nullptr;
  Conv2dGeometry convolution;
  InputNorm norm;
};

FusedCall fused_call(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                     const Conv2dOptions& options) {
  FusedConvNorm* const kernels = backend_of(x.device()).fused_conv_norm();
  const bool fits = norm.options.training && norm.options.activation.kind == Activation::relu &&
                    options.activation.kind == Activation::none && !options.max_pool;
  if (!kernels || !fits) return {};
  check_alike("batch_norm_conv2d", "x", x, "w", w);
  FusedCall call{.kernels = kernels,
                 .convolution = conv2d_geometry(x.shape(), w.shape(), false, options, x.dtype()),
                 .norm = {.geometry = batch_norm_geometry(x, norm.gamma, norm.beta, norm.options,
                                                          norm.residual),
                          .x = x,
                          .gamma = norm.gamma,
                          .beta = norm.beta,
                          .residual = norm.residual,
                          .sums = norm.state.sums}};
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
  check_training(call.norm.geometry, norm.options, x);
  check_sums(norm.state.sums, x);
  const Conv2dGeometry& geometry = call.convolution;
  const Shape channels{geometry.c};
  const TensorOptions f32{.device = x.device()};
  call.norm.statistics = {
      .mean = empty(channels, f32), .variance = {}, .inv_std = empty(channels, f32)};
  call.norm.folded = empty({2, geometry.c}, x.options());
  const RunningStatistics running = running_statistics(norm.state, norm.options, x);
  call.kernels->statistics(call.norm, running);
  note_pending(running);
  const Convolved result{
      .y = empty({geometry.n, geometry.h_out, geometry.w_out, geometry.c_out}, x.options()),
      .sums = empty({2, geometry.c_out}, f32)};
  call.kernels->convolve_normalised(geometry, call.norm, w, {.y = result.y, .sums = result.sums});
  record("batch_norm_conv2d", {&x, &norm.gamma, &norm.beta, &w}, result.y,
         [kernels = call.kernels, geometry, norm_geometry = call.norm.geometry, x = save(x),
          gamma = save(norm.gamma), beta = save(norm.beta), w = save(w),
          mean = save(call.norm.statistics.mean), inv_std = save(call.norm.statistics.inv_std),
          folded = save(call.norm.folded)](Gradients& g) {
           g.no_double_backward();
           kernels->convolve_normalised_backward(
               geometry,
               {.geometry = norm_geometry,
                .x = x(g),
                .gamma = gamma(g),
                .beta = beta(g),
                .statistics = {.mean = mean(g), .variance = {}, .inv_std = inv_std(g)},
                .folded = folded(g)},
               w(g),
               {.dy = g.dy(),
                .dx = g.grad_buffer_if_needed(0),
                .dgamma = g.grad_buffer_if_needed(1),
                .dbeta = g.grad_buffer_if_needed(2),
                .dw = g.grad_buffer_if_needed(3)});
         });
  return result;
}

ResidualTail batch_norm_add_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                                   const Conv2dOptions& options) {
  const FusedCall call = fused_call(x, norm, w, options);
  if (!call.kernels || !norm.residual.defined()) return unfused(x, norm, w, options);
  const NormalisedBatch batch = normalise_batch(call.norm.geometry, x, norm);
  const ResidualTail result{.y = batch.y,
                            .convolved = convolve_with_sums(call.convolution, batch.y, w)};
  const Tensor* const inputs[] = {&x, &norm.gamma, &norm.beta, &norm.residual, &w};
  const Tensor* const outputs[] = {&result.y, &result.convolved.y};
  record("batch_norm_add_conv2d", inputs, outputs,
         [kernels = call.kernels, geometry = call.convolution, norm_geometry = call.norm.geometry,
          x = save(x), gamma = save(norm.gamma), beta = save(norm.beta),
          residual = save(norm.residual), w = save(w), y = save_output(result.y),
          mean = save(batch.mean), inv_std = save(batch.inv_std)](Gradients& g) {
           g.no_double_backward();
           kernels->convolve_normalised_backward(
               geometry,
               {.geometry = norm_geometry,
                .x = x(g),
                .gamma = gamma(g),
                .beta = beta(g),
                .residual = residual(g),
                .statistics = {.mean = mean(g), .variance = {}, .inv_std = inv_std(g)}},
               w(g),
               {.dy = g.dy(1),
                .others = g.dy(0),
                .dx = g.grad_buffer_if_needed(0),
                .dgamma = g.grad_buffer_if_needed(1),
                .dbeta = g.grad_buffer_if_needed(2),
                .dresidual = g.grad_buffer_if_needed(3)});
           const Tensor dw = g.grad_buffer_if_needed(4);
           if (!dw.defined()) return;
           backend_of(dw.device())
               .convolution()
               .conv2d_backward(geometry, {.x = y(g), .w = w(g)}, g.dy(1), {.dw = dw});
         });
  return result;
}

}  // namespace whisker
