// The requests that few-channel kernels support.
#include "core/cuda/convolution/few_channels/few_channels_conv.cuh"
#include "core/cuda/convolution/few_channels/few_channels_conv.h"

namespace whisker::cuda {
namespace {

class FewChannelsConv final : public ConvolutionAlgorithm {
 public:
  explicit FewChannelsConv(const ConvolutionRequest& request) : request_(request) {}

  std::string name() const override { return "few_channels"; }
  int64_t workspace_bytes() const override {
    return forward() ? 0 : few_channels_weights_workspace_bytes(request_);
  }
  void run(const KernelSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    if (forward()) {
      few_channels_forward(request_, operands, site);
    } else {
      few_channels_weights(request_, operands, site, workspace);
    }
  }

 private:
  bool forward() const { return request_.pass == ConvolutionPass::forward; }

  ConvolutionRequest request_;
};

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
  const bool activation =
      f == Activation::none || f == Activation::relu || f == Activation::leaky_relu;
  const bool plain = g.groups == 1 && g.dilation_h == 1 && g.dilation_w == 1 && !request.residual &&
                     !request.sums && !request.normalised &&
                     request.pass != ConvolutionPass::backward_input;
  const bool known =
      type && activation && plain && site.capability >= 80 && fits(g) &&
      (!request.pooled || is_monotonic(g.activation)) &&
      visit_few_channels(request, [&]<class T, class S, int Filters, bool Pooled>() {});
  if (!known) return nullptr;
  return std::make_unique<FewChannelsConv>(request);
}

}  // namespace whisker::cuda
