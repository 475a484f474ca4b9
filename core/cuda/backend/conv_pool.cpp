// Convolution, activation and max-pooling as one operator: the few-channel kernels' where they have
// the shape, else cuDNN's convolution with bias and relu, then the pooling. The convolution's
// result lives for one call; backward goes from the windows' gradients to the pooled image's
// first, but in a few-channel kernel, which works from argmax.
#include "core/cuda/backend/convolution_passes.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/ops/output_gradient.h"
#include "core/cuda/ops/pooling.h"

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

class ConvPool final : public ConvPoolKernels, ConvolutionPasses {
 public:
  using ConvolutionPasses::ConvolutionPasses;

  void forward(const ConvPoolGeometry& g, const AffineInputs& in, const Tensor& y,
               const Tensor& workspace) override {
    context_.enter();
    const AlignedInput image(context_, allocator_, in.x);
    const AlignedInput filter(context_, allocator_, in.w);
    const AlignedInput bias(context_, allocator_, in.b);
    void* const argmax = workspace.defined() ? workspace.raw() : nullptr;
    const ConvolutionRequest request{
        .pass = ConvolutionPass::forward, .geometry = g.conv, .pooled = true, .tf32 = tf32()};
    const ConvolutionOperands operands{
        .x = image.data(), .w = filter.data(), .b = bias.data(), .y = y.raw(), .argmax = argmax};
    const auto unfused = [&] {
      // cuDNN fuses relu into the convolution. Any other activation runs after the pooling, on
      // fewer elements.
      const bool first = g.conv.activation.kind == Activation::relu;
      const Scratch z(allocator_, bytes_before_pooling(g.conv));
      ConvolutionRequest unpooled = request;
      unpooled.pooled = false;
      if (!first) unpooled.geometry.activation = {};
      convolve_forward(unpooled,
                       {.x = image.data(), .w = filter.data(), .b = bias.data(), .y = z.data()});
      pool2d_forward(context_, g.pool, z.data(), y.raw(), argmax);
      if (!first) {
        bias_activation(rows_of(g.pool), g.conv.activation, nullptr, nullptr, y.raw(),
                        context_.stream());
      }
    };
    if (is_epilogue(g.pool) && is_aligned(y.raw()) && is_aligned(argmax)) {
      algorithms_.convolutions().run(request, operands, unfused);
    } else {
      unfused();
    }
  }

  void backward(const ConvPoolGeometry& g, const ConvPoolSaved& saved, const Tensor& dy,
                const AffineGrads& out) override {
    context_.enter();
    const bool active = g.conv.activation.kind != Activation::none;
    ConvolutionGradients memory(context_, allocator_, {.x = saved.x, .w = saved.w, .y = saved.y},
                                dy, out, active);
    ConvolutionOperands operands = memory.of_weights();
    operands.argmax = saved.workspace.raw();
    ConvolutionRequest weights{.pass = ConvolutionPass::backward_weights,
                               .geometry = g.conv,
                               .pooled = true,
                               .tf32 = tf32()};
    weights.geometry.bias = out.db.defined();
    const auto unfused = [&] {
      if (!out.dx.defined() && !out.dw.defined()) {
        // Each window has one argmax: the bias gradient is the sum of the windows' gradients.
        return output_gradient(rows_of(g.pool), g.conv.activation, operands.output, operands.y,
                               nullptr, operands.b, context_, allocator_);
      }
      const Scratch dz(allocator_, bytes_before_pooling(g.conv));  // (N, h_out, w_out, c_out)
      if (is_epilogue(g.pool)) {
        window_gradient(g.pool, g.conv.activation, operands.output, operands.y,
                        saved.workspace.raw(), dz.data(), operands.b, context_, allocator_);
      } else {
        const Scratch windows(allocator_, dy.bytes());  // before the activation
        output_gradient(rows_of(g.pool), g.conv.activation, operands.output, operands.y,
                        windows.data(), operands.b, context_, allocator_);
        cuda::pool2d_backward(context_, g.pool, saved.workspace.raw(), windows.data(), dz.data());
      }
      convolve_backward_from(dz.data(), weights.plain(), memory);
    };
    if (is_epilogue(g.pool) && is_aligned(saved.workspace.raw())) {
      convolve_backward(weights, operands, out.dx.defined(), unfused);
    } else {
      unfused();
    }
    memory.finish();
  }
};

}  // namespace

std::shared_ptr<ConvPoolKernels> make_conv_pool(CudaDevice& device) {
  return std::make_shared<ConvPool>(device);
}

}  // namespace whisker::cuda
