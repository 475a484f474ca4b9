// The requests that few-channel kernels support.
#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/convolution/few_channels/few_channels_conv.h"

namespace whisker::cuda {
namespace {

// The kernels count positions, and elements of a row, in 32 bits.
bool fits(const Conv2dGeometry& g) {
  constexpr int64_t most = int64_t{1} << 30;
  return g.n * g.h_out * g.w_out < most && g.w * g.c < most && g.h < most;
}

}  // namespace

ConvolutionAlgorithmPointer few_channels_conv(const ConvolutionRequest& request,
                                              const KernelSite& site) {
  const Conv2dGeometry& g = request.geometry;
  const Activation f = g.activation.kind;
  const bool type =
      g.dtype == DType::bf16 || g.dtype == DType::f16 || (g.dtype == DType::f32 && request.tf32);
  // Kernels with every activation, unrolled over a lane's elements, would not fit the
  // instruction cache.
  const bool activation = f == Activation::none || f == Activation::relu;
  const bool plain = g.groups == 1 && g.dilation_h == 1 && g.dilation_w == 1 && !request.residual &&
                     !request.sums && !request.normalised &&
                     request.pass != ConvolutionPass::backward_input;
  const bool known =
      type && activation && plain && site.capability >= 80 && fits(g) &&
      visit_few_channels(request, [&]<class T, class S, int Filters, bool Pooled>() {});
  if (!known) return nullptr;
  const bool forward = request.pass == ConvolutionPass::forward;
  const auto run = [request, forward](const KernelSite& on, const ConvolutionOperands& operands,
                                      void* workspace) {
    if (forward) return few_channels_forward(request, operands, on);
    few_channels_weights(request, operands, on, workspace);
  };
  return std::make_unique<FunctionAlgorithm<ConvolutionOperands>>(
      "few_channels", run, forward ? 0 : few_channels_weights_workspace_bytes(request));
}

}  // namespace whisker::cuda
