// Convolution with bias and activation, and its gradients: each pass is a request to the plans.
#include "core/cuda/cuda_backend.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/operators/output_gradient.h"

namespace whisker::cuda {
namespace {

RowsGeometry rows_of_y(const Conv2dGeometry& g) {
  return {.rows = g.n * g.h_out * g.w_out, .channels = g.c_out, .dtype = g.dtype};
}

}  // namespace

void CudaBackend::conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& y) {
  context_.enter();
  const AlignedInput in(context_, allocator_, x);
  const AlignedInput filter(context_, allocator_, w);
  const AlignedInput bias(context_, allocator_, b);
  AlignedOutput out(context_, allocator_, y);
  const ConvolutionRequest request{.pass = ConvolutionPass::forward, .geometry = g, .tf32 = tf32()};
  const ConvolutionOperands operands{
      .x = in.data(), .w = filter.data(), .b = bias.data(), .y = out.data()};
  convolve_forward(request, operands);
  out.finish();
}

void CudaBackend::convolve_forward(const ConvolutionRequest& request,
                                   const ConvolutionOperands& operands) {
  if (!request.has_epilogue()) return plans_.convolutions().run(request, operands);
  plans_.convolutions().run(request, operands, [&] {
    ConvolutionOperands product = operands;
    product.b = nullptr;  // comes with the activation
    plans_.convolutions().run(request.plain(), product);
    bias_activation(rows_of_y(request.geometry), request.geometry.activation, operands.b,
                    operands.y, context_.stream());
  });
}

void CudaBackend::convolve_backward(const ConvolutionRequest& weights,
                                    const ConvolutionOperands& operands, void* dz, const Tensor& w,
                                    const Tensor& dx) {
  ConvolutionOperands with_dz = operands;
  with_dz.y = dz;
  if (!dx.defined()) {
    if (operands.w) plans_.convolutions().run(weights, with_dz);
    return;
  }
  const AlignedInput filter(context_, allocator_, w);
  AlignedOutput input_gradient(context_, allocator_, dx);
  ConvolutionRequest input = weights;
  input.pass = ConvolutionPass::backward_input;
  const ConvolutionOperands of_input{.x = input_gradient.data(), .w = filter.data(), .y = dz};
  if (operands.w) {
    plans_.convolutions().run_both(weights, with_dz, input, of_input);
  } else {
    plans_.convolutions().run(input, of_input);
  }
  input_gradient.finish();
}

void CudaBackend::conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                  const Tensor& y, const Tensor& dy, const Tensor& dx,
                                  const Tensor& dw, const Tensor& db) {
  context_.enter();
  const bool active = g.activation.kind != Activation::none;
  const AlignedInput gradient(context_, allocator_, dy);
  const AlignedInput output(context_, allocator_, active ? y : Tensor());
  const AlignedInput in(context_, allocator_, dw.defined() ? x : Tensor());
  AlignedOutput filter_gradient(context_, allocator_, dw);
  AlignedOutput bias_gradient(context_, allocator_, db);

  ConvolutionRequest weights{
      .pass = ConvolutionPass::backward_weights, .geometry = g, .tf32 = tf32()};
  weights.geometry.bias = db.defined();
  const ConvolutionOperands operands{.x = in.data(),
                                     .w = filter_gradient.data(),
                                     .b = bias_gradient.data(),
                                     .y = gradient.data(),
                                     .output = output.data()};
  const auto separately = [&] {
    // dz (N, h_out, w_out, c_out) = f'(z) dy; dy itself without an activation.
    std::optional<Scratch> dz;
    if (active && (dx.defined() || dw.defined())) dz.emplace(allocator_, dy.bytes());
    output_gradient(rows_of_y(g), g.activation, output.data(), gradient.data(),
                    dz ? dz->data() : nullptr, bias_gradient.data(), context_, allocator_);
    convolve_backward(weights.plain(), operands, dz ? dz->data() : gradient.data(), w, dx);
  };
  // Where no input gradient needs dz, the weights' may come straight from dy.
  if (dw.defined() && !dx.defined() && weights.has_epilogue()) {
    plans_.convolutions().run(weights, operands, separately);
  } else {
    separately();
  }
  filter_gradient.finish();
  bias_gradient.finish();
}

}  // namespace whisker::cuda
