// The end of a residual block fused with the gradient of the convolution behind it, against the
// reference, in f16.
#include "conv_norm_case.h"

namespace whisker::test {
namespace {

/// Small beside what it is added to, or large, so that relu's sign is now the one's, now the
/// other's.
std::vector<double> residuals(const Shape& shape) {
  std::vector<double> values = numbers(shape, 5, 0, 0, 1);
  for (double& v : values) v = std::fabs(v) < 0.5 ? 0.2 * v : std::copysign(3, v);
  return values;
}

/// The end of a block and what reads it: a convolution, and something that looks at y itself.
Results run_residual_tail(const ConvNormCase& c, Device device) {
  const auto& [x, gamma, beta, w] = conv_norm_leaves(c, device);
  const Tensor residual = on(device, residuals(c.x), c.x, DType::f16).set_requires_grad();
  const ResidualTail end =
      batch_norm_add_conv2d(x,
                            {.gamma = gamma,
                             .beta = beta,
                             .state = {},
                             .options = {.training = true, .activation = {Activation::relu}},
                             .residual = residual},
                            w, c.options);
  // Each result's gradient is what it is multiplied with, with a mean far from zero.
  const auto weighted = [&](const Tensor& y, uint64_t stream) {
    const Tensor by = on(device, numbers(y.shape(), stream, 0.5, 0, 0.5), y.shape(), DType::f16);
    return sum(y.to(DType::f32) * by.to(DType::f32));
  };
  backward(weighted(end.y, 6) + weighted(end.convolved.y, 4));
  return {{"y", end.y.to_vector()},
          {"convolved", end.convolved.y.to_vector()},
          {"dx", x.grad().to_vector()},
          {"dresidual", residual.grad().to_vector()},
          {"dgamma", gamma.grad().to_vector()},
          {"dbeta", beta.grad().to_vector()},
          {"dw", w.grad().to_vector()}};
}

bool is_fused_residual_tail(const ConvNormCase& c) {
  const Shape channels{c.x[3]};
  const TensorOptions f16{.dtype = DType::f16, .device = gpu}, f32{.device = gpu};
  return batch_norm_conv2d_is_fused(
      zeros(c.x, f16),
      {.gamma = ones(channels, f32),
       .beta = zeros(channels, f32),
       .state = {},
       .options = {.training = true, .activation = {Activation::relu}},
       .residual = zeros(c.x, f16)},
      zeros(c.w, f16), c.options);
}

class CudaResidualTails : public CudaConvNorm {
 protected:
  void SetUp() override {
    CudaConvNorm::SetUp();
    if (IsSkipped() || is_fused_residual_tail(conv_norm_cases()[1])) return;
    GTEST_SKIP() << "skipped: cuDNN fuses no residual tail on this GPU";
  }
  void expect_agreement(const char* what) {
    for (const ConvNormCase& c : conv_norm_cases()) {
      expect_close(what, c, run_residual_tail(c, gpu), run_residual_tail(c, reference_device));
    }
  }
};

// cuDNN has the pattern for convolutions that do not stride.
TEST_F(CudaResidualTails, FuseWithEveryConvolutionThatDoesNotStride) {
  for (const ConvNormCase& c : conv_norm_cases()) {
    EXPECT_EQ(is_fused_residual_tail(c), c.options.stride.h == 1) << c.x.str() << c.w.str();
  }
  use(ConvNormFusion::never, 0);
  EXPECT_FALSE(is_fused_residual_tail(conv_norm_cases()[1]));
}

TEST_F(CudaResidualTails, AgreeWithTheReference) {
  expect_agreement("fused");
  use(ConvNormFusion::never, 0);
  expect_agreement("unfused");
}

TEST_F(CudaResidualTails, AgreeWithTheReferenceWhenTimed) {
  use(ConvNormFusion::always, 600);
  for (const char* what : {"first run", "timed engines"}) expect_agreement(what);
  use(ConvNormFusion::faster, 600);
  for (const char* what : {"untested", "timed against unfused", "chosen"}) expect_agreement(what);
  const std::string table = backend_of(gpu).export_algorithms();
  EXPECT_NE(table.find("chain backward_input f16"), std::string::npos) << table;
}

}  // namespace
}  // namespace whisker::test
