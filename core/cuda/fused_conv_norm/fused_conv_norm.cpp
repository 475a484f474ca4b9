// Convolutions fused with batch norms: depthwise ones by requests to ConvAlgorithms, pointwise ones
// by core/cuda/fused_conv_norm/pointwise.h.
#include "core/backend/fused_ops.h"
#include "core/cuda/convolution/conv_algorithms.h"
#include "core/cuda/fused_conv_norm/pointwise.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/norm/batch_norm.h"

namespace whisker::cuda {
namespace {

ImageNorm image_norm(const TrainingNorm& norm) {
  return {.mean = f32(norm.mean),
          .inv_std = f32(norm.inv_std),
          .gamma = f32(norm.gamma),
          .beta = f32(norm.beta),
          .activation = norm.geometry.activation};
}

class ConvNorm final : public FusedConvNorm, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void convolve(const Conv2dGeometry& g, const AffineInputs& in, const SummedOutput& out) override {
    context_.enter();
    const AlignedInput x(context_, allocator_, in.x), w(context_, allocator_, in.w);
    convolutions_.run({.geometry = g, .sums = true},
                      {.x = x.data(), .w = w.data(), .y = out.y.raw(), .sums = f32(out.sums)});
  }

  void statistics(const TrainingNorm& norm) override {
    context_.enter();
    kernels::batch_norm_statistics(context_, allocator_, norm);
  }

  bool takes_norm(const Conv2dGeometry& g) override {
    // Pointwise ones run on tensor cores by instructions of compute capability 8.0.
    return depthwise_takes_norm(g) || (pointwise_takes_norm(g) && context_.capability() >= 80);
  }

  void convolve_normalised(const Conv2dGeometry& g, const TrainingNorm& norm, const Tensor& filter,
                           const SummedOutput& out) override {
    context_.enter();
    const AlignedInput x(context_, allocator_, norm.x), w(context_, allocator_, filter);
    const ConvolutionOperands operands{.x = x.data(),
                                       .w = w.data(),
                                       .y = out.y.raw(),
                                       .sums = f32(out.sums),
                                       .norm = image_norm(norm)};
    if (depthwise_takes_norm(g)) {
      return convolutions_.run({.geometry = g, .sums = true, .normalised = true}, operands);
    }
    pointwise_forward(context_, allocator_, g, operands);
  }

  void convolve_normalised_backward(const Conv2dGeometry& g, const TrainingNorm& norm,
                                    const Tensor& filter,
                                    const ConvNormGradients& gradients) override {
    context_.enter();
    const AlignedInput x(context_, allocator_, norm.x), w(context_, allocator_, filter);
    const AlignedInput dy(context_, allocator_, gradients.dy);
    AlignedOutput dx(context_, allocator_, gradients.norm.dx);
    AlignedOutput dw(context_, allocator_, gradients.dw);
    ConvolutionOperands operands{.x = dx.data(),
                                 .w = w.data(),
                                 .y = dy.data(),
                                 .norm = image_norm(norm),
                                 .norm_gradients = {.x = x.data(),
                                                    .dgamma = f32(gradients.norm.dgamma),
                                                    .dbeta = f32(gradients.norm.dbeta)}};
    if (depthwise_takes_norm(g)) {
      depthwise_backward(g, norm, operands, dw.data());
    } else {
      pointwise_backward(context_, allocator_, g, operands, dw.data());
    }
    dw.finish();
    dx.finish();
  }

 private:
  void depthwise_backward(const Conv2dGeometry& g, const TrainingNorm& norm, ConvolutionOperands o,
                          void* dw) {
    ConvolutionRequest request{
        .pass = ConvolutionPass::backward_weights, .geometry = g, .normalised = true};
    NormGradients& out = o.norm_gradients;
    if (dw) {
      convolutions_.run(request,
                        {.x = const_cast<void*>(out.x), .w = dw, .y = o.y, .norm = o.norm});
    }
    if (!o.x && !out.dgamma && !out.dbeta) return;
    const Scratch coefficients(allocator_, 2 * g.c * int64_t{sizeof(float)});
    out.slope = coefficients.as<float>();
    out.shift = out.slope + g.c;
    request.pass = ConvolutionPass::backward_input;
    convolutions_.run(request, o);
    if (!o.x) return;  // else o.x holds dz
    const Operand dx{o.x, g.dtype};
    kernels::batch_norm_input_gradient(context_, norm.geometry, device_norm(norm), {},
                                       {.dx = dx, .dresidual = dx}, {out.slope, out.shift});
  }

  ConvAlgorithms& convolutions_ = *device_.convolutions;
};

}  // namespace

std::shared_ptr<FusedConvNorm> make_fused_conv_norm(CudaDevice& device) {
  return std::make_shared<ConvNorm>(device);
}

}  // namespace whisker::cuda
