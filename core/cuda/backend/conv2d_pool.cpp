// Convolution, activation and max-pooling as one operator: the few-channel kernels' where they have
// the shape, else cuDNN's convolution with bias and relu, then the pooling. The convolution's
// result lives for one call; backward goes from the windows' gradients to the pooled image's
// first, but in a few-channel kernel, which works from argmax.
#include "core/cuda/backend/convolution_gradients.h"
#include "core/cuda/backend/cuda_backend.h"
#include "core/cuda/kernels/output_gradient.h"
#include "core/cuda/kernels/pool2d.h"
#include "core/cuda/memory/aligned.h"

namespace whisker::cuda {
namespace {

/// Windows of 2x2 side by side, all of them whole: what an algorithm may have as an epilogue.
bool is_epilogue(const Pool2dGeometry& p) {
  return p.kernel_h == 2 && p.kernel_w == 2 && p.stride_h == 2 && p.stride_w == 2 &&
         p.pad_top == 0 && p.pad_left == 0 && p.h_out == p.h / 2 && p.w_out == p.w / 2 &&
         p.n * p.h_out * p.w_out < int64_t{1} << 32;
}

int64_t bytes_before_pooling(const Conv2dGeometry& g) {
  return g.n * g.h_out * g.w_out * g.c_out * static_cast<int64_t>(size_of(g.dtype));
}

RowsGeometry rows_of(const Pool2dGeometry& p) {
  return {.rows = p.n * p.h_out * p.w_out, .channels = p.c, .dtype = p.dtype};
}

}  // namespace

void CudaBackend::conv2d_pool(const Conv2dGeometry& g, const Pool2dGeometry& pool, const Tensor& x,
                              const Tensor& w, const Tensor& b, const Tensor& y,
                              const Tensor& workspace) {
  context_.enter();
  const AlignedInput in(context_, allocator_, x);
  const AlignedInput filter(context_, allocator_, w);
  const AlignedInput bias(context_, allocator_, b);
  void* const argmax = workspace.defined() ? workspace.raw() : nullptr;
  const ConvolutionRequest request{
      .pass = ConvolutionPass::forward, .geometry = g, .pooled = true, .tf32 = tf32()};
  const ConvolutionOperands operands{
      .x = in.data(), .w = filter.data(), .b = bias.data(), .y = y.raw(), .argmax = argmax};
  const auto unfused = [&] {
    // relu rides in cuDNN's convolution; any other activation has fewer elements after the pooling.
    const bool first = g.activation.kind == Activation::relu;
    const Scratch z(allocator_, bytes_before_pooling(g));
    ConvolutionRequest unpooled = request;
    unpooled.pooled = false;
    if (!first) unpooled.geometry.activation = {};
    convolve_forward(unpooled,
                     {.x = in.data(), .w = filter.data(), .b = bias.data(), .y = z.data()});
    pool2d_forward(context_, pool, z.data(), y.raw(), argmax);
    if (!first) bias_activation(rows_of(pool), g.activation, nullptr, y.raw(), context_.stream());
  };
  if (is_epilogue(pool) && is_aligned(y.raw()) && is_aligned(argmax)) {
    algorithms_.convolutions().run(request, operands, unfused);
  } else {
    unfused();
  }
}

void CudaBackend::conv2d_pool_backward(const Conv2dGeometry& g, const Pool2dGeometry& pool,
                                       const Tensor& x, const Tensor& w, const Tensor& y,
                                       const Tensor& workspace, const Tensor& dy, const Tensor& dx,
                                       const Tensor& dw, const Tensor& db) {
  context_.enter();
  const bool active = g.activation.kind != Activation::none;
  ConvolutionGradients memory(context_, allocator_,
                              {.x = x, .w = w, .y = y, .dy = dy, .dx = dx, .dw = dw, .db = db},
                              active);
  ConvolutionOperands operands = memory.operands();
  operands.argmax = workspace.raw();
  ConvolutionRequest weights{
      .pass = ConvolutionPass::backward_weights, .geometry = g, .pooled = true, .tf32 = tf32()};
  weights.geometry.bias = db.defined();
  const auto unfused = [&] {
    if (!dx.defined() && !dw.defined()) {
      // Every window has one winner, so that the windows' gradients sum to the bias'.
      return output_gradient(rows_of(pool), g.activation, operands.output, operands.y, nullptr,
                             operands.b, context_, allocator_);
    }
    const Scratch dz(allocator_, bytes_before_pooling(g));  // (N, h_out, w_out, c_out)
    if (is_epilogue(pool)) {
      window_gradient(pool, g.activation, operands.output, operands.y, workspace.raw(), dz.data(),
                      operands.b, context_, allocator_);
    } else {
      const Scratch windows(allocator_, dy.bytes());  // before the activation
      output_gradient(rows_of(pool), g.activation, operands.output, operands.y, windows.data(),
                      operands.b, context_, allocator_);
      cuda::pool2d_backward(context_, pool, workspace.raw(), windows.data(), dz.data());
    }
    convolve_backward_from(dz.data(), weights.plain(), operands);
  };
  if (is_epilogue(pool) && is_aligned(workspace.raw())) {
    convolve_backward(weights, operands, unfused);
  } else {
    unfused();
  }
  memory.finish();
}

}  // namespace whisker::cuda
