#include "core/cuda/fused_conv_norm/fused_conv_norm.h"

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

void CudaFusedConvNorm::convolve(const Conv2dGeometry& g, const AffineInputs& in,
                                 const SummedOutput& out) {
  context_.enter();
  const AlignedInput x(context_, allocator_, in.x);
  const AlignedInput filter(context_, allocator_, in.w);
  algorithms_.run({.pass = ConvolutionPass::forward, .geometry = g, .sums = true},
                  {.x = x.data(), .w = filter.data(), .y = out.y.raw(), .sums = out.sums.raw()});
}

void CudaFusedConvNorm::statistics(const TrainingNorm& norm) {
  context_.enter();
  kernels::batch_norm_statistics(context_, allocator_, norm);
}

bool CudaFusedConvNorm::takes_norm(const Conv2dGeometry& g) {
  // Pointwise ones run on tensor cores by instructions of compute capability 8.0.
  return depthwise_takes_norm(g) || (pointwise_takes_norm(g) && context_.capability() >= 80);
}

void CudaFusedConvNorm::convolve_normalised(const Conv2dGeometry& g, const TrainingNorm& norm,
                                            const Tensor& w, const SummedOutput& out) {
  context_.enter();
  if (depthwise_takes_norm(g)) {
    return depthwise(ConvolutionPass::forward, g, norm,
                     {.w = w.raw(), .y = out.y.raw(), .sums = out.sums.raw()});
  }
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
  const ConvolutionRequest request{
      .pass = pass, .geometry = g, .sums = pass == ConvolutionPass::forward, .normalised = true};
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
  algorithms_.run(request, operands);
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
  if (depthwise_takes_norm(g)) return depthwise_backward(g, norm, w, gradients);
  pointwise_backward(g, norm, w, gradients);
}

}  // namespace whisker::cuda
