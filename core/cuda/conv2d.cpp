// Convolution with bias and activation, and its gradients: each pass is a request to the plans.
#include "core/cuda/aligned.h"
#include "core/cuda/cuda_backend.h"
#include "core/cuda/output_gradient.h"

namespace whisker::cuda {
namespace {

RowsGeometry rows_of_y(const Conv2dGeometry& g) {
  return {.rows = g.n * g.h_out * g.w_out, .channels = g.c_out, .dtype = g.dtype};
}

Conv2dGeometry without_epilogue(Conv2dGeometry g) {
  g.bias = false;
  g.activation = {};
  return g;
}

}  // namespace

void CudaBackend::conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b,
                         const Tensor& y) {
  context_.enter();
  const AlignedInput in(context_, allocator_, x);
  const AlignedInput filter(context_, allocator_, w);
  std::optional<AlignedInput> bias;
  if (g.bias) bias.emplace(context_, allocator_, b);
  void* const bias_data = bias ? bias->data() : nullptr;
  AlignedOutput out(context_, allocator_, y);
  ConvolutionRequest request{.pass = ConvolutionPass::forward, .geometry = g, .tf32 = tf32()};
  const ConvolutionOperands operands{
      .x = in.data(), .w = filter.data(), .b = bias_data, .y = out.data()};
  if (!plans_.convolutions().run(request, operands)) {
    request.geometry = without_epilogue(g);
    plans_.convolutions().run(request, operands);
    bias_activation(rows_of_y(g), g.activation, bias_data, out.data(), context_.stream());
  }
  out.finish();
}

void CudaBackend::conv2d_backward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                  const Tensor& y, const Tensor& dy, const Tensor& dx,
                                  const Tensor& dw, const Tensor& db) {
  context_.enter();
  // dz (N, h_out, w_out, c_out) = f'(z) dy; dy itself without an activation.
  const AlignedInput gradient(context_, allocator_, dy);
  const bool active = g.activation.kind != Activation::none;
  const bool products = dx.defined() || dw.defined();
  std::optional<Scratch> dz;
  if (active && products) dz.emplace(allocator_, dy.bytes());
  output_gradient(rows_of_y(g), g.activation, active ? y.raw() : nullptr, gradient.data(),
                  dz ? dz->data() : nullptr, db.defined() ? db.raw() : nullptr, context_,
                  allocator_);
  void* const product_gradient = dz ? dz->data() : gradient.data();

  const Conv2dGeometry plain = without_epilogue(g);
  if (dw.defined()) {
    const AlignedInput in(context_, allocator_, x);
    AlignedOutput out(context_, allocator_, dw);
    plans_.convolutions().run(
        {.pass = ConvolutionPass::backward_weights, .geometry = plain, .tf32 = tf32()},
        {.x = in.data(), .w = out.data(), .y = product_gradient});
    out.finish();
  }
  if (dx.defined()) {
    const AlignedInput filter(context_, allocator_, w);
    AlignedOutput out(context_, allocator_, dx);
    plans_.convolutions().run(
        {.pass = ConvolutionPass::backward_input, .geometry = plain, .tf32 = tf32()},
        {.x = out.data(), .w = filter.data(), .y = product_gradient});
    out.finish();
  }
}

}  // namespace whisker::cuda
