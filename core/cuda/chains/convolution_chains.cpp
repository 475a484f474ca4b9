#include "core/cuda/chains/convolution_chains.h"

#include "core/cuda/chains/block_end_trial.h"
#include "core/cuda/chains/chain_norm.h"
#include "core/cuda/chains/chain_trial.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/summed_statistics.h"

namespace whisker::cuda {

bool CudaConvolutionChains::convolve(const Conv2dGeometry& g, const ConvolutionOperands& operands) {
  if (!allowed(g)) return false;
  ConvolutionRequest summing = request(ConvolutionPass::forward, g);
  summing.sums = true;
  return plans_.run_if_faster(summing, operands, [&] {
    plans_.run(summing.plain(), operands);
    pass_over_result(g, operands.y);
  });
}

void CudaConvolutionChains::pass_over_result(const Conv2dGeometry& g, const void* y) {
  const BatchNormGeometry rows{
      .rows = g.n * g.h_out * g.w_out, .channels = g.c_out, .activation = {}, .dtype = g.dtype};
  const Scratch statistics(allocator_, 2 * g.c_out * int64_t{sizeof(float)});
  kernels::batch_norm_statistics(context_, allocator_, rows,
                                 {.x = y,
                                  .mean = statistics.as<float>(),
                                  .inverse_deviation = statistics.as<float>() + g.c_out},
                                 {});
}

void CudaConvolutionChains::forward(const Link& link) {
  const int64_t c = link.convolution.c;
  auto* const scale = static_cast<std::byte*>(link.folded);
  kernels::fold_norm(context_, c, link.mean, link.inverse_deviation, link.gamma, link.beta, scale);
  ConvolutionRequest joined = request(ConvolutionPass::forward, link.convolution);
  joined.normalised = true;
  joined.sums = true;
  plans_.run(joined, {.x = link.x,
                      .w = link.w,
                      .y = link.y,
                      .sums = link.sums,
                      .norm = {.scale = scale, .shift = scale + c * f16_bytes}});
}

void CudaConvolutionChains::backward_input(const Link& link) {
  const int64_t c = link.convolution.c;
  std::optional<Scratch> unwanted;
  if (!link.dz) unwanted.emplace(allocator_, link.norm.rows * c * f16_bytes);
  void* const dz = link.dz ? link.dz : unwanted->data();
  const Scratch factors(allocator_, 3 * c * int64_t{sizeof(float)});
  float* const dz_factor = factors.as<float>();
  float* const x_factor = dz_factor + c;
  float* const offset = x_factor + c;
  ConvolutionRequest input = request(ConvolutionPass::backward_input, link.convolution);
  input.normalised = true;
  input.added = link.residual != nullptr;
  plans_.run(input, {.x = dz,
                     .w = link.w,
                     .y = link.dy,
                     .norm = {.x = link.x,
                              .residual = link.residual,
                              .others = link.others,
                              .mean = link.mean,
                              .inverse_deviation = link.inverse_deviation,
                              .gamma = link.gamma,
                              .beta = link.beta,
                              .dgamma = link.dgamma,
                              .dbeta = link.dbeta,
                              .dz_factor = dz_factor,
                              .x_factor = x_factor,
                              .offset = offset}});
  if (!link.dx) return;
  kernels::apply_chain_gradient(context_, link.norm,
                                {.dz = dz,
                                 .x = link.x,
                                 .dz_factor = dz_factor,
                                 .x_factor = x_factor,
                                 .offset = offset,
                                 .dx = link.dx});
}

void CudaConvolutionChains::backward_weights(const Link& link) {
  const int64_t c = link.convolution.c;
  auto* const scale = static_cast<std::byte*>(link.folded);
  ConvolutionRequest weights = request(ConvolutionPass::backward_weights, link.convolution);
  weights.normalised = true;
  plans_.run(weights, {.x = link.x,
                       .w = link.dw,
                       .y = link.dy,
                       .norm = {.scale = scale, .shift = scale + c * f16_bytes}});
}

bool CudaConvolutionChains::convolve(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                     const Tensor& y, const Tensor& sums) {
  if (g.dtype != DType::f16) return false;
  context_.enter();
  const AlignedInput in(context_, allocator_, x);
  const AlignedInput filter(context_, allocator_, w);
  return convolve(g, {.x = in.data(), .w = filter.data(), .y = y.raw(), .sums = sums.raw()});
}

void CudaConvolutionChains::statistics(const BatchNormGeometry& g, const Tensor& x,
                                       const Tensor& sums, const BatchStatistics& out,
                                       const RunningStatistics& running) {
  context_.enter();
  const kernels::Running pending = kernels::Running::of(running);
  if (sums.defined()) {
    kernels::statistics_of_sums(context_, g,
                                {.sums = f32(sums),
                                 .mean = f32(out.mean),
                                 .variance = f32(out.variance),
                                 .inverse_deviation = f32(out.inverse_deviation)},
                                pending);
  } else {
    kernels::batch_norm_statistics(
        context_, allocator_, g,
        {.x = x.raw(), .mean = f32(out.mean), .inverse_deviation = f32(out.inverse_deviation)},
        pending);
  }
}

bool CudaConvolutionChains::prefers_joined(const Conv2dGeometry& g, const Tensor& x,
                                           const Tensor& sums, const InputNorm& norm,
                                           const Tensor& w) {
  if (!allowed(g) || g.dtype != DType::f16 || norm.gamma.dtype() != DType::f32) return false;
  context_.enter();
  if (norm.residual.defined()) {
    ConvolutionRequest joined = request(ConvolutionPass::backward_input, g);
    joined.normalised = true;
    joined.added = true;
    BlockEndTrial trial(*this, g, x, norm, w);
    return links_.prefers_joined(
        {.request = joined}, [&] { trial.joined(); }, [&] { trial.apart(); });
  }
  ConvolutionRequest joined = request(ConvolutionPass::forward, g);
  joined.normalised = true;
  joined.sums = true;
  Trial trial(*this, g, x, sums, norm, w);
  return links_.prefers_joined(
      {.request = joined, .given_sums = sums.defined()}, [&] { trial.joined(); },
      [&] { trial.apart(); });
}

void CudaConvolutionChains::convolve_normalised(const Conv2dGeometry& g, const Tensor& x,
                                                const InputNorm& norm, const Tensor& w,
                                                const Tensor& y, const Tensor& sums) {
  context_.enter();
  const AlignedInput in(context_, allocator_, x);
  const AlignedInput filter(context_, allocator_, w);
  forward({.convolution = g,
           .norm = norm.geometry,
           .x = in.data(),
           .w = filter.data(),
           .y = y.raw(),
           .sums = f32(sums),
           .gamma = f32(norm.gamma),
           .beta = f32(norm.beta),
           .mean = f32(norm.statistics.mean),
           .inverse_deviation = f32(norm.statistics.inverse_deviation),
           .folded = norm.folded.raw()});
}

void CudaConvolutionChains::convolve_normalised_backward(const Conv2dGeometry& g, const Tensor& x,
                                                         const InputNorm& norm, const Tensor& w,
                                                         const Tensor& dy,
                                                         const InputNormGradients& out) {
  backward(g, x, norm, w, dy, {}, out);
}

void CudaConvolutionChains::block_end_backward(const Conv2dGeometry& g, const Tensor& x,
                                               const InputNorm& norm, const Tensor& w,
                                               const Tensor& dy, const Tensor& others,
                                               const InputNormGradients& out) {
  backward(g, x, norm, w, dy, others, out);
}

void CudaConvolutionChains::backward(const Conv2dGeometry& g, const Tensor& x,
                                     const InputNorm& norm, const Tensor& w, const Tensor& dy,
                                     const Tensor& others, const InputNormGradients& out) {
  context_.enter();
  const AlignedInput in(context_, allocator_, x);
  const AlignedInput filter(context_, allocator_, w);
  const AlignedInput gradient(context_, allocator_, dy);
  const AlignedInput residual(context_, allocator_, norm.residual);
  const AlignedInput more(context_, allocator_, others);
  const AlignedInput gamma(context_, allocator_, norm.gamma);
  const AlignedInput beta(context_, allocator_, norm.beta);
  AlignedOutput dx(context_, allocator_, out.dx);
  AlignedOutput dw(context_, allocator_, out.dw);
  AlignedOutput dgamma(context_, allocator_, out.dgamma);
  AlignedOutput dbeta(context_, allocator_, out.dbeta);
  AlignedOutput dresidual(context_, allocator_, out.dresidual);
  const Scratch unwanted(allocator_, 2 * g.c * int64_t{sizeof(float)});
  const auto or_unwanted = [&](const AlignedOutput& output, int64_t place) {
    void* const wanted = output.data();
    return wanted ? static_cast<float*>(wanted) : unwanted.as<float>() + place * g.c;
  };
  const Link link{.convolution = g,
                  .norm = norm.geometry,
                  .x = in.data(),
                  .w = filter.data(),
                  .gamma = static_cast<float*>(gamma.data()),
                  .beta = static_cast<float*>(beta.data()),
                  .mean = f32(norm.statistics.mean),
                  .inverse_deviation = f32(norm.statistics.inverse_deviation),
                  .folded = pointer(norm.folded),
                  .residual = residual.data(),
                  .others = more.data(),
                  .dy = gradient.data(),
                  .dx = dx.data(),
                  .dw = dw.data(),
                  .dz = dresidual.data(),
                  .dgamma = or_unwanted(dgamma, 0),
                  .dbeta = or_unwanted(dbeta, 1)};
  backward_input(link);
  if (link.dw) backward_weights(link);
  for (AlignedOutput* output : {&dx, &dw, &dgamma, &dbeta, &dresidual}) output->finish();
}

}  // namespace whisker::cuda
