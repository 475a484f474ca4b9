// The requests that few-channel kernels support.
#include "core/cuda/convolution/few_channels/few_channels_conv.h"

#include "core/error.h"

namespace whisker::cuda {
namespace {

class FewChannelsConv final : public ConvolutionAlgorithm {
 public:
  explicit FewChannelsConv(const ConvolutionRequest& request) : request_(request) {}

  std::string name() const override { return std::string(few_channels_name); }
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

// See few_channels_conv.h.
bool has_kernel(const ConvolutionRequest& request, bool narrow) {
  const Conv2dGeometry& g = request.geometry;
  const auto shape = [&](int64_t channels, int64_t kernel, int64_t stride) {
    return g.c == channels && g.kernel_h == kernel && g.kernel_w == kernel &&
           g.stride_h == stride && g.stride_w == stride;
  };
  const bool known =
      shape(1, 3, 1) || shape(3, 3, 1) || shape(3, 3, 2) || (shape(3, 7, 2) && narrow);
  const bool filters =
      g.c_out == 32 || g.c_out == 64 || (g.c_out % 8 == 0 && g.c_out < 64 && !request.pooled);
  return known && filters && request.pass != ConvolutionPass::backward_input;
}

}  // namespace

ConvolutionAlgorithmPointer few_channels_conv(const ConvolutionRequest& request,
                                              const KernelSite& site) {
  const Conv2dGeometry& g = request.geometry;
  const bool activation_fits =
      g.activation.kind == Activation::none || is_leaky_relu(g.activation.kind);
  const bool narrow = g.dtype == DType::bf16 || g.dtype == DType::f16;
  const bool known = has_kernel(request, narrow) && site.capability >= 80 &&
                     (narrow || request.tf32) && g.groups == 1 && !request.residual &&
                     !request.sums && !request.normalised && activation_fits && g.dilation_h == 1 &&
                     g.dilation_w == 1 && fits(g) &&
                     (!request.pooled || (g.stride_h == 1 && is_monotonic(g.activation)));
  if (!known) return nullptr;
  return std::make_unique<FewChannelsConv>(request);
}

void fail_few_channels(const ConvolutionRequest& request) {
  fail(ErrorKind::internal, "no few-channel kernel computes {}", request.describe());
}

}  // namespace whisker::cuda
