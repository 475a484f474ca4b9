// Which requests the thin kernels take.
#include "core/cuda/convolution/thin_convolution.h"

namespace whisker::cuda {
namespace {

class ThinConvolution final : public ConvolutionAlgorithm {
 public:
  explicit ThinConvolution(const ConvolutionRequest& request) : request_(request) {}

  std::string name() const override { return std::string(thin_name); }
  int64_t workspace_bytes() const override {
    return forward() ? 0 : thin_weights_workspace_bytes(request_);
  }
  void run(const ConvolutionSite& site, const ConvolutionOperands& operands,
           void* workspace) const override {
    if (forward()) {
      thin_forward(request_, operands, site);
    } else {
      thin_weights(request_, operands, site, workspace);
    }
  }

 private:
  bool forward() const { return request_.pass == ConvolutionPass::forward; }

  ConvolutionRequest request_;
};

// The kernels count places in 32 bits, and the picture's elements row by row.
bool fits(const Conv2dGeometry& g) {
  constexpr int64_t most = int64_t{1} << 30;
  return g.n * g.h_out * g.w_out < most && g.w * g.c < most && g.h < most;
}

}  // namespace

ConvolutionAlgorithmPointer thin_convolution(const ConvolutionRequest& request, int capability) {
  const Conv2dGeometry& g = request.geometry;
  const auto shape = [&](int64_t channels, int64_t kernel, int64_t stride) {
    return g.c == channels && g.kernel_h == kernel && g.kernel_w == kernel &&
           g.stride_h == stride && g.stride_w == stride;
  };
  const bool bent = g.activation.kind == Activation::none || has_bend(g.activation.kind);
  const bool narrow = g.dtype == DType::bf16 || g.dtype == DType::f16;
  const bool known =
      shape(1, 3, 1) || shape(3, 3, 1) || shape(3, 3, 2) || (shape(3, 7, 2) && narrow);
  const bool supported = known && capability >= 80 && (narrow || request.tf32) &&
                         request.pass != ConvolutionPass::backward_input && g.groups == 1 &&
                         !request.sums && !request.normalised && bent && g.dilation_h == 1 &&
                         g.dilation_w == 1 && (g.c_out == 32 || g.c_out == 64) && fits(g) &&
                         (!request.pooled || (g.stride_h == 1 && never_falls(g.activation)));
  if (!supported) return nullptr;
  return std::make_unique<ThinConvolution>(request);
}

}  // namespace whisker::cuda
