// Convolution with bias, residual and activation, and its gradients: each pass is a request to
// ConvAlgorithms.
#include "core/cuda/backend/convolution_passes.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/ops/output_gradient.h"

#include <functional>
#include <optional>

namespace whisker::cuda {
namespace {

RowsGeometry rows_of_y(const Conv2dGeometry& g) {
  return {.rows = g.n * g.h_out * g.w_out, .channels = g.c_out, .dtype = g.dtype};
}

}  // namespace

void ConvolutionPasses::convolve_forward(const ConvolutionRequest& request,
                                         const ConvolutionOperands& operands) {
  if (!request.has_epilogue()) return algorithms_.convolutions().run(request, operands);
  algorithms_.convolutions().run(request, operands, [&] {
    ConvolutionOperands plain = operands;  // bias and residual come with the activation
    plain.b = nullptr;
    plain.residual = nullptr;
    algorithms_.convolutions().run(request.plain(), plain);
    bias_activation(rows_of_y(request.geometry), request.geometry.activation, operands.b,
                    operands.residual, operands.y, context_.stream());
  });
}

void ConvolutionPasses::convolve_backward(const ConvolutionRequest& weights,
                                          const ConvolutionOperands& operands, bool wants_dx,
                                          const std::function<void()>& unfused) {
  if (operands.w && !wants_dx && weights.has_epilogue()) {
    algorithms_.convolutions().run(weights, operands, unfused);
  } else {
    unfused();
  }
}

void ConvolutionPasses::convolve_backward_from(void* dz, const ConvolutionRequest& weights,
                                               const ConvolutionGradients& gradients) {
  ConvolutionOperands of_weights = gradients.of_weights();
  if (of_weights.w) {
    of_weights.y = dz;
    algorithms_.convolutions().run(weights, of_weights);
  }
  const ConvolutionOperands of_input = gradients.of_input(dz);
  if (of_input.x) {
    ConvolutionRequest input = weights;
    input.pass = ConvolutionPass::backward_input;
    algorithms_.convolutions().run(input, of_input);
  }
}

namespace {

class Convolution final : public ConvolutionKernels, ConvolutionPasses {
 public:
  using ConvolutionPasses::ConvolutionPasses;

  void conv2d(const Conv2dGeometry& g, const AffineInputs& in, const Tensor& y) override {
    context_.enter();
    const AlignedInput image(context_, allocator_, in.x);
    const AlignedInput filter(context_, allocator_, in.w);
    const AlignedInput bias(context_, allocator_, in.b);
    const AlignedInput residual(context_, allocator_, in.residual);
    AlignedOutput result(context_, allocator_, y);
    const ConvolutionRequest request{.pass = ConvolutionPass::forward,
                                     .geometry = g,
                                     .residual = in.residual.defined(),
                                     .tf32 = tf32()};
    const ConvolutionOperands operands{.x = image.data(),
                                       .w = filter.data(),
                                       .b = bias.data(),
                                       .y = result.data(),
                                       .residual = residual.data()};
    convolve_forward(request, operands);
    result.finish();
  }

  void conv2d_backward(const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    context_.enter();
    const bool active = g.activation.kind != Activation::none;
    ConvolutionGradients memory(context_, allocator_, saved, dy, out, active);
    const ConvolutionOperands operands = memory.of_weights();
    ConvolutionRequest weights{
        .pass = ConvolutionPass::backward_weights, .geometry = g, .tf32 = tf32()};
    weights.geometry.bias = out.db.defined();
    const auto unfused = [&] {
      // dz (N, h_out, w_out, c_out) = f'(z) dy; dy itself without an activation.
      std::optional<Scratch> dz;
      if (active && (out.dx.defined() || out.dw.defined())) dz.emplace(allocator_, dy.bytes());
      output_gradient(rows_of_y(g), g.activation, operands.output, operands.y,
                      dz ? dz->data() : nullptr, operands.b, context_, allocator_);
      convolve_backward_from(dz ? dz->data() : operands.y, weights.plain(), memory);
    };
    convolve_backward(weights, operands, out.dx.defined(), unfused);
    memory.finish();
  }
};

}  // namespace

std::shared_ptr<ConvolutionKernels> make_convolution(CudaDevice& device) {
  return std::make_shared<Convolution>(device);
}

}  // namespace whisker::cuda
