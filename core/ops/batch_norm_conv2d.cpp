// A batch_norm with relu and the convolution behind it as one operator, for devices whose
// convolutions do parts of the batch_norm. Without a residual only x, what the convolution before
// left, is kept; with one, which others read, too, only backward is joined.
#include "core/autograd.h"
#include "core/backend.h"
#include "core/convolution_chains.h"
#include "core/ops/checks.h"
#include "core/ops/conv2d.h"
#include "core/ops/norm.h"

namespace whisker {
namespace {

/// The operator worked out, without memory.
struct Joint {
  ConvolutionChains* chains = nullptr;
  Conv2dGeometry convolution;
  InputNorm norm;
};

// Without chains where the two cannot be one.
Joint joint_of(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
               const Conv2dOptions& options) {
  ConvolutionChains* const chains = backend_of(x.device()).convolution_chains();
  const bool fits = norm.options.training && norm.options.activation.kind == Activation::relu &&
                    options.activation.kind == Activation::none && !options.max_pool;
  if (!chains || !fits) return {};
  check_alike("batch_norm_conv2d", "x", x, "w", w);
  Joint joint{.chains = chains,
              .convolution = conv2d_geometry(x.shape(), w.shape(), false, options, x.dtype()),
              .norm = {.geometry = batch_norm_geometry(x, norm.gamma, norm.beta, norm.options,
                                                       norm.residual),
                       .gamma = norm.gamma,
                       .beta = norm.beta,
                       .residual = norm.residual}};
  if (!chains->prefers_joined(joint.convolution, x, norm.state.sums, joint.norm, w)) return {};
  return joint;
}

BlockEnd apart(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
               const Conv2dOptions& options) {
  const Tensor y = batch_norm(x, norm.gamma, norm.beta, norm.state, norm.options, norm.residual);
  return {.y = y, .convolved = conv2d_with_sums(y, w, options)};
}

}  // namespace

bool batch_norm_conv2d_is_joint(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                                const Conv2dOptions& options) {
  return joint_of(x, norm, w, options).chains != nullptr;
}

Convolved batch_norm_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                            const Conv2dOptions& options) {
  if (norm.residual.defined()) return batch_norm_add_conv2d(x, norm, w, options).convolved;
  Joint joint = joint_of(x, norm, w, options);
  if (!joint.chains) return apart(x, norm, w, options).convolved;
  check_training(joint.norm.geometry, norm.options, x);
  check_sums(norm.state.sums, x);
  const Conv2dGeometry& geometry = joint.convolution;
  const Shape channels{geometry.c};
  const TensorOptions f32{.device = x.device()};
  joint.norm.statistics = {
      .mean = empty(channels, f32), .variance = {}, .inverse_deviation = empty(channels, f32)};
  joint.norm.folded = empty({2, geometry.c}, x.options());
  const RunningStatistics running = running_statistics(norm.state, norm.options, x);
  joint.chains->statistics(joint.norm.geometry, x, norm.state.sums, joint.norm.statistics, running);
  note_pending(running);
  const Convolved result{
      .y = empty({geometry.n, geometry.h_out, geometry.w_out, geometry.c_out}, x.options()),
      .sums = empty({2, geometry.c_out}, f32)};
  joint.chains->convolve_normalised(geometry, x, joint.norm, w, result.y, result.sums);
  record("batch_norm_conv2d", {&x, &norm.gamma, &norm.beta, &w}, result.y,
         [chains = joint.chains, geometry, norm_geometry = joint.norm.geometry, x = save(x),
          gamma = save(norm.gamma), beta = save(norm.beta), w = save(w),
          mean = save(joint.norm.statistics.mean),
          inverse_deviation = save(joint.norm.statistics.inverse_deviation),
          folded = save(joint.norm.folded)](Gradients& g) {
           g.once_only();
           const InputNormGradients out{.dx = g.target_if_needed(0),
                                        .dgamma = g.target_if_needed(1),
                                        .dbeta = g.target_if_needed(2),
                                        .dw = g.target_if_needed(3)};
           chains->convolve_normalised_backward(
               geometry, x(g),
               {.geometry = norm_geometry,
                .gamma = gamma(g),
                .beta = beta(g),
                .statistics = {.mean = mean(g),
                               .variance = {},
                               .inverse_deviation = inverse_deviation(g)},
                .folded = folded(g)},
               w(g), g.dy(), out);
         });
  return result;
}

BlockEnd batch_norm_add_conv2d(const Tensor& x, const BatchNormOperands& norm, const Tensor& w,
                               const Conv2dOptions& options) {
  const Joint joint = joint_of(x, norm, w, options);
  if (!joint.chains || !norm.residual.defined()) return apart(x, norm, w, options);
  const NormalisedBatch batch = normalise_batch(joint.norm.geometry, x, norm);
  const BlockEnd result{.y = batch.y,
                        .convolved = convolve_with_sums(joint.convolution, batch.y, w)};
  const Tensor* const inputs[] = {&x, &norm.gamma, &norm.beta, &norm.residual, &w};
  const Tensor* const outputs[] = {&result.y, &result.convolved.y};
  record(
      "batch_norm_add_conv2d", inputs, outputs,
      [chains = joint.chains, geometry = joint.convolution, norm_geometry = joint.norm.geometry,
       x = save(x), gamma = save(norm.gamma), beta = save(norm.beta),
       residual = save(norm.residual), w = save(w), y = save_output(result.y),
       mean = save(batch.mean), inverse_deviation = save(batch.inverse_deviation)](Gradients& g) {
        g.once_only();
        const InputNormGradients out{.dx = g.target_if_needed(0),
                                     .dgamma = g.target_if_needed(1),
                                     .dbeta = g.target_if_needed(2),
                                     .dresidual = g.target_if_needed(3)};
        chains->block_end_backward(geometry, x(g),
                                   {.geometry = norm_geometry,
                                    .gamma = gamma(g),
                                    .beta = beta(g),
                                    .residual = residual(g),
                                    .statistics = {.mean = mean(g),
                                                   .variance = {},
                                                   .inverse_deviation = inverse_deviation(g)}},
                                   w(g), g.dy(1), g.dy(0), out);
        const Tensor dw = g.target_if_needed(4);
        if (!dw.defined()) return;
        backend_of(dw.device()).conv2d_backward(geometry, y(g), w(g), {}, g.dy(1), {}, dw, {});
      });
  return result;
}

}  // namespace whisker
