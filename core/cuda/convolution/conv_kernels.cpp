// The family of convolutions: with bias, residual and activation, the same with max-pooling behind
// them, and their gradients. Each pass is a request to ConvAlgorithms. A gradient of the weights
// alone may be computed straight from dy; that of the input is made from dz.
#include "core/backend/convolution.h"
#include "core/cuda/convolution/conv_algorithms.h"
#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/cuda_device.h"
#include "core/cuda/memory/operand.h"

namespace whisker::cuda {
namespace {

class Convolution final : public ConvolutionKernels, public ConvPoolKernels, CudaKernels {
 public:
  using CudaKernels::CudaKernels;

  void conv2d(const Conv2dGeometry& g, const AffineInputs& in, const Tensor& y) override {
    context_.enter();
    const AlignedInput x(context_, allocator_, in.x), w(context_, allocator_, in.w);
    const AlignedInput b(context_, allocator_, in.b), residual(context_, allocator_, in.residual);
    AlignedOutput result(context_, allocator_, y);
    convolutions_.run({.geometry = g, .residual = in.residual.defined(), .tf32 = tf32()},
                      {.x = x.data(),
                       .w = w.data(),
                       .b = b.data(),
                       .y = result.data(),
                       .residual = residual.data()});
    result.finish();
  }

  void conv2d_backward(const Conv2dGeometry& g, const AffineSaved& saved, const Tensor& dy,
                       const AffineGrads& out) override {
    backward({.geometry = g}, saved, no_tensor, dy, out);
  }

  // Windows of 2x2 side by side, all of them whole: an epilogue.
  bool takes(const ConvPoolGeometry& g) override {
    const Pool2dGeometry& p = g.pool;
    return p.is_square(2, 2) && p.pad_top == 0 && p.pad_left == 0 && p.h_out == p.h / 2 &&
           p.w_out == p.w / 2 && p.n * p.h_out * p.w_out < int64_t{1} << 32;
  }

  void forward(const ConvPoolGeometry& g, const AffineInputs& in, const Tensor& y,
               const Tensor& workspace) override {
    context_.enter();
    const AlignedInput x(context_, allocator_, in.x), w(context_, allocator_, in.w);
    const AlignedInput b(context_, allocator_, in.b);
    convolutions_.run(
        {.geometry = g.conv, .pooled = true, .tf32 = tf32()},
        {.x = x.data(), .w = w.data(), .b = b.data(), .y = y.raw(), .argmax = pointer(workspace)});
  }

  void backward(const ConvPoolGeometry& g, const ConvPoolSaved& saved, const Tensor& dy,
                const AffineGrads& out) override {
    backward({.geometry = g.conv, .pooled = true}, {.x = saved.x, .w = saved.w, .y = saved.y},
             saved.workspace, dy, out);
  }

 private:
  void backward(ConvolutionRequest request, const AffineSaved& saved, const Tensor& argmax,
                const Tensor& dy, const AffineGrads& out) {
    context_.enter();
    const bool active = request.geometry.activation.kind != Activation::none;
    const AlignedInput x(context_, allocator_, out.dw.defined() ? saved.x : no_tensor);
    const AlignedInput w(context_, allocator_, out.dx.defined() ? saved.w : no_tensor);
    const AlignedInput y(context_, allocator_, active ? saved.y : no_tensor);
    const AlignedInput gradient(context_, allocator_, dy);
    AlignedOutput dx(context_, allocator_, out.dx), dw(context_, allocator_, out.dw);
    AlignedOutput db(context_, allocator_, out.db);
    const ConvolutionOperands operands{.x = x.data(),
                                       .w = dw.data(),
                                       .b = db.data(),
                                       .y = gradient.data(),
                                       .output = y.data(),
                                       .argmax = pointer(argmax)};
    request.pass = ConvolutionPass::backward_weights;
    request.geometry.bias = out.db.defined();
    request.tf32 = tf32();
    if (operands.w && !out.dx.defined() && request.has_epilogue()) {
      convolutions_.run(request, operands);
    } else {
      convolutions_.backward_unfused(request, operands, {.x = dx.data(), .w = w.data()});
    }
    for (AlignedOutput* const written : {&dx, &dw, &db}) written->finish();
  }

  ConvAlgorithms& convolutions_ = *device_.convolutions;
};

}  // namespace

std::shared_ptr<ConvolutionKernels> make_convolution(CudaDevice& device) {
  return std::make_shared<Convolution>(device);
}

std::shared_ptr<ConvPoolKernels> make_conv_pool(CudaDevice& device) {
  return std::make_shared<Convolution>(device);
}

}  // namespace whisker::cuda
