#include "core/cuda/fused_conv_norm/fused_conv_norm.h"

#include "core/cuda/fused_conv_norm/benchmark.h"
#include "core/cuda/fused_conv_norm/norm_kernels.h"
#include "core/cuda/fused_conv_norm/pointwise.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda {
namespace {

PointwiseOperands pointwise_operands(const TrainingNorm& norm, const AlignedInput& x,
                                     const AlignedInput& w) {
  return {.x = x.data(),
          .w = w.data(),
          .norm = {.mean = f32(norm.mean),
                   .inv_std = f32(norm.inv_std),
                   .gamma = f32(norm.gamma),
                   .beta = f32(norm.beta),
                   .activation = norm.geometry.activation}};
}

}  // namespace

bool CudaFusedConvNorm::convolve(const Conv2dGeometry& g, const ConvolutionOperands& operands) {
  ConvolutionRequest summing = request(ConvolutionPass::forward, g);
  summing.sums = true;
  if (fuses_norm(g) && options_.conv_norm_fusion != ConvNormFusion::never) {
    algorithms_.run(summing, operands);
    return true;
  }
  if (!allowed(g)) return false;
  return algorithms_.run_if_faster(summing, operands, [&] {
    algorithms_.run(summing.plain(), operands);
    pass_over_result(g, operands.y);
  });
}

void CudaFusedConvNorm::pass_over_result(const Conv2dGeometry& g, const void* y) {
  const BatchNormGeometry rows{
      .rows = g.n * g.h_out * g.w_out, .channels = g.c_out, .activation = {}, .dtype = g.dtype};
  const Scratch statistics(allocator_, 2 * g.c_out * int64_t{sizeof(float)});
  kernels::batch_norm_statistics(
      context_, allocator_, rows,
      {.x = y, .mean = statistics.as<float>(), .inv_std = statistics.as<float>() + g.c_out}, {});
}

void CudaFusedConvNorm::forward(const Operands& o) {
  const int64_t c = o.convolution.c;
  auto* const scale = static_cast<std::byte*>(o.folded);
  kernels::fold_norm(context_, c, o.mean, o.inv_std, o.gamma, o.beta, scale);
  ConvolutionRequest fused = request(ConvolutionPass::forward, o.convolution);
  fused.normalised = true;
  fused.sums = true;
  algorithms_.run(fused, {.x = o.x,
                          .w = o.w,
                          .y = o.y,
                          .sums = o.sums,
                          .norm = {.scale = scale, .shift = scale + c * f16_bytes}});
}

void CudaFusedConvNorm::backward_input(const Operands& o) {
  const int64_t c = o.convolution.c;
  std::optional<Scratch> unwanted;
  if (!o.dz) unwanted.emplace(allocator_, o.norm.rows * c * f16_bytes);
  void* const dz = o.dz ? o.dz : unwanted->data();
  const Scratch factors(allocator_, 3 * c * int64_t{sizeof(float)});
  float* const dz_factor = factors.as<float>();
  float* const x_factor = dz_factor + c;
  float* const offset = x_factor + c;
  ConvolutionRequest input = request(ConvolutionPass::backward_input, o.convolution);
  input.normalised = true;
  input.added = o.residual != nullptr;
  algorithms_.run(input, {.x = dz,
                          .w = o.w,
                          .y = o.dy,
                          .norm = {.x = o.x,
                                   .residual = o.residual,
                                   .others = o.others,
                                   .mean = o.mean,
                                   .inv_std = o.inv_std,
                                   .gamma = o.gamma,
                                   .beta = o.beta,
                                   .dgamma = o.dgamma,
                                   .dbeta = o.dbeta,
                                   .dz_factor = dz_factor,
                                   .x_factor = x_factor,
                                   .offset = offset}});
  if (!o.dx) return;
  kernels::apply_norm_gradient(context_, o.norm,
                               {.dz = dz,
                                .x = o.x,
                                .dz_factor = dz_factor,
                                .x_factor = x_factor,
                                .offset = offset,
                                .dx = o.dx});
}

void CudaFusedConvNorm::backward_weights(const Operands& o) {
  const int64_t c = o.convolution.c;
  auto* const scale = static_cast<std::byte*>(o.folded);
  ConvolutionRequest weights = request(ConvolutionPass::backward_weights, o.convolution);
  weights.normalised = true;
  algorithms_.run(
      weights,
      {.x = o.x, .w = o.dw, .y = o.dy, .norm = {.scale = scale, .shift = scale + c * f16_bytes}});
}

bool CudaFusedConvNorm::convolve(const Conv2dGeometry& g, const AffineInputs& in,
                                 const SummedOutput& out) {
  if (g.dtype != DType::f16 && !fuses_norm(g)) return false;
  context_.enter();
  const AlignedInput x(context_, allocator_, in.x);
  const AlignedInput filter(context_, allocator_, in.w);
  const ConvolutionOperands operands{
      .x = x.data(), .w = filter.data(), .y = out.y.raw(), .sums = out.sums.raw()};
  return convolve(g, operands);
}

void CudaFusedConvNorm::statistics(const TrainingNorm& norm) {
  context_.enter();
  kernels::batch_norm_statistics(context_, allocator_, norm);
}

bool CudaFusedConvNorm::prefers_fused(const Conv2dGeometry& g, const TrainingNorm& norm,
                                      const Tensor& w) {
  if (options_.conv_norm_fusion == ConvNormFusion::never) return false;
  if (norm.gamma.dtype() != DType::f32) return false;
  if (fuses_norm(g)) return !norm.residual.defined();
  // On tensor cores, whose instructions GPUs have from compute capability 8.0 on.
  if (is_pointwise(g, norm)) return context_.capability() >= 80;
  if (!allowed(g) || g.dtype != DType::f16) return false;
  if (norm.geometry.activation.kind != Activation::relu) return false;
  context_.enter();
  if (norm.residual.defined()) {
    ConvolutionRequest fused = request(ConvolutionPass::backward_input, g);
    fused.normalised = true;
    fused.added = true;
    return fusion_.prefers_fused({.request = fused}, [&] {
      return std::make_unique<ResidualTailBenchmark>(*this, g, norm, w);
    });
  }
  ConvolutionRequest fused = request(ConvolutionPass::forward, g);
  fused.normalised = true;
  fused.sums = true;
  return fusion_.prefers_fused({.request = fused, .given_sums = norm.sums.defined()}, [&] {
    return std::make_unique<ConvNormBenchmark>(*this, g, norm, w);
  });
}

bool CudaFusedConvNorm::convolve_normalised(const Conv2dGeometry& g, const TrainingNorm& norm,
                                            const Tensor& w, const SummedOutput& out) {
  context_.enter();
  if (fuses_norm(g)) {
    depthwise(ConvolutionPass::forward, g, norm,
              {.w = w.raw(), .y = out.y.raw(), .sums = out.sums.raw()});
    return true;
  }
  if (is_pointwise(g, norm)) {
    pointwise(g, norm, w, out);
    return true;
  }
  const AlignedInput in(context_, allocator_, norm.x);
  const AlignedInput filter(context_, allocator_, w);
  forward({.convolution = g,
           .norm = norm.geometry,
           .x = in.data(),
           .w = filter.data(),
           .y = out.y.raw(),
           .sums = f32(out.sums),
           .gamma = f32(norm.gamma),
           .beta = f32(norm.beta),
           .mean = f32(norm.mean),
           .inv_std = f32(norm.inv_std),
           .folded = norm.folded.raw()});
  return true;
}

void CudaFusedConvNorm::pointwise(const Conv2dGeometry& g, const TrainingNorm& norm,
                                  const Tensor& w, const SummedOutput& out) {
  const AlignedInput x(context_, allocator_, norm.x);
  const AlignedInput filter(context_, allocator_, w);
  pointwise_forward(context_, allocator_, g, pointwise_operands(norm, x, filter), out.y.raw(),
                    f32(out.sums));
}

void CudaFusedConvNorm::pointwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm,
                                           const Tensor& w, const ConvNormGradients& gradients) {
  const AlignedInput x(context_, allocator_, norm.x);
  const AlignedInput filter(context_, allocator_, w);
  const AlignedInput dy(context_, allocator_, gradients.dy);
  AlignedOutput dx(context_, allocator_, gradients.norm.dx);
  cuda::pointwise_backward(context_, allocator_, g, pointwise_operands(norm, x, filter),
                           {.dy = dy.data(),
                            .dx = dx.data(),
                            .dw = pointer(gradients.dw),
                            .dgamma = f32(gradients.norm.dgamma),
                            .dbeta = f32(gradients.norm.dbeta)});
  dx.finish();
}

// The own kernels, which normalise the image that they read: norm.x is operands.x or, where that is
// a gradient, operands.norm.x.
void CudaFusedConvNorm::depthwise(ConvolutionPass pass, const Conv2dGeometry& g,
                                  const TrainingNorm& norm, ConvolutionOperands operands) {
  ConvolutionRequest normalising = request(pass, g);
  normalising.normalised = true;
  normalising.sums = pass == ConvolutionPass::forward;
  const AlignedInput x(context_, allocator_, norm.x);
  if (pass == ConvolutionPass::backward_input) {
    operands.norm.x = x.data();
  } else {
    operands.x = x.data();
  }
  operands.norm.mean = norm.mean.raw();
  operands.norm.inv_std = norm.inv_std.raw();
  operands.norm.gamma = norm.gamma.raw();
  operands.norm.beta = norm.beta.raw();
  operands.norm.activation = norm.geometry.activation;
  algorithms_.run(normalising, operands);
}

void CudaFusedConvNorm::depthwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm,
                                           const Tensor& w, const ConvNormGradients& gradients) {
  const AlignedInput dy(context_, allocator_, gradients.dy);
  if (gradients.dw.defined()) {
    AlignedOutput dw(context_, allocator_, gradients.dw);
    depthwise(ConvolutionPass::backward_weights, g, norm, {.w = dw.data(), .y = dy.data()});
    dw.finish();
  }
  const NormGrads& out = gradients.norm;
  if (!out.dx.defined() && !out.dgamma.defined() && !out.dbeta.defined()) return;
  const AlignedInput filter(context_, allocator_, w);
  AlignedOutput dx(context_, allocator_, out.dx);
  const Scratch factors(allocator_, 3 * g.c * int64_t{sizeof(float)});
  float* const dz_factor = factors.as<float>();
  depthwise(ConvolutionPass::backward_input, g, norm,
            {.x = dx.data(),
             .w = filter.data(),
             .y = dy.data(),
             .norm = {.dgamma = f32(out.dgamma),
                      .dbeta = f32(out.dbeta),
                      .dz_factor = dz_factor,
                      .x_factor = dz_factor + g.c,
                      .offset = dz_factor + 2 * g.c}});
  if (dx.data() && g.stride_h == 1) {  // dx is dz
    const AlignedInput x(context_, allocator_, norm.x);
    kernels::apply_norm_gradient(context_, norm.geometry,
                                 {.dz = dx.data(),
                                  .x = x.data(),
                                  .mean = f32(norm.mean),
                                  .dz_factor = dz_factor,
                                  .x_factor = dz_factor + g.c,
                                  .offset = dz_factor + 2 * g.c,
                                  .dx = dx.data()});
  }
  dx.finish();
}

void CudaFusedConvNorm::convolve_normalised_backward(const Conv2dGeometry& g,
                                                     const TrainingNorm& norm, const Tensor& w,
                                                     const ConvNormGradients& gradients) {
  context_.enter();
  if (fuses_norm(g)) return depthwise_backward(g, norm, w, gradients);
  if (is_pointwise(g, norm)) return pointwise_backward(g, norm, w, gradients);
  const AlignedInput in(context_, allocator_, norm.x);
  const AlignedInput filter(context_, allocator_, w);
  const AlignedInput gradient(context_, allocator_, gradients.dy);
  const AlignedInput residual(context_, allocator_, norm.residual);
  const AlignedInput more(context_, allocator_, gradients.others);
  const AlignedInput gamma(context_, allocator_, norm.gamma);
  const AlignedInput beta(context_, allocator_, norm.beta);
  AlignedOutput dx(context_, allocator_, gradients.norm.dx);
  AlignedOutput dw(context_, allocator_, gradients.dw);
  AlignedOutput dgamma(context_, allocator_, gradients.norm.dgamma);
  AlignedOutput dbeta(context_, allocator_, gradients.norm.dbeta);
  AlignedOutput dresidual(context_, allocator_, gradients.norm.dresidual);
  const Scratch unwanted(allocator_, 2 * g.c * int64_t{sizeof(float)});
  const auto or_unwanted = [&](const AlignedOutput& output, int64_t place) {
    void* const wanted = output.data();
    return wanted ? static_cast<float*>(wanted) : unwanted.as<float>() + place * g.c;
  };
  const Operands o{.convolution = g,
                   .norm = norm.geometry,
                   .x = in.data(),
                   .w = filter.data(),
                   .gamma = static_cast<float*>(gamma.data()),
                   .beta = static_cast<float*>(beta.data()),
                   .mean = f32(norm.mean),
                   .inv_std = f32(norm.inv_std),
                   .folded = pointer(norm.folded),
                   .residual = residual.data(),
                   .others = more.data(),
                   .dy = gradient.data(),
                   .dx = dx.data(),
                   .dw = dw.data(),
                   .dz = dresidual.data(),
                   .dgamma = or_unwanted(dgamma, 0),
                   .dbeta = or_unwanted(dbeta, 1)};
  backward_input(o);
  if (o.dw) backward_weights(o);
  for (AlignedOutput* output : {&dx, &dw, &dgamma, &dbeta, &dresidual}) output->finish();
}

}  // namespace whisker::cuda
