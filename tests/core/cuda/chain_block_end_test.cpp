// The end of a residual block joined with the gradient of the convolution behind it, against the
// reference, in f16.
#include "chain_case.h"

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
Results run_block_end(const ChainCase& c, Device device) {
  const Shape channels{c.x[3]};
  const Tensor x = on(device, numbers(c.x, 0, 0, 1, 0.5), c.x, DType::f16).set_requires_grad();
  const Tensor residual = on(device, residuals(c.x), c.x, DType::f16).set_requires_grad();
  const Tensor gamma =
      on(device, numbers(channels, 1, 1, 0, 0.25), channels, DType::f32).set_requires_grad();
  const Tensor beta =
      on(device, numbers(channels, 2, 0, 0, 0.25), channels, DType::f32).set_requires_grad();
  const Tensor w = on(device, numbers(c.w, 3, 0, 0, 0.5), c.w, DType::f16).set_requires_grad();
  const BlockEnd end =
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

bool is_joint_block_end(const ChainCase& c) {
  const Shape channels{c.x[3]};
  const TensorOptions f16{.dtype = DType::f16, .device = gpu}, f32{.device = gpu};
  return batch_norm_conv2d_is_joint(
      zeros(c.x, f16),
      {.gamma = ones(channels, f32),
       .beta = zeros(channels, f32),
       .state = {},
       .options = {.training = true, .activation = {Activation::relu}},
       .residual = zeros(c.x, f16)},
      zeros(c.w, f16), c.options);
}

class CudaChainBlockEnds : public CudaChains {
 protected:
  void SetUp() override {
    CudaChains::SetUp();
    if (IsSkipped() || is_joint_block_end(chain_cases()[1])) return;
    GTEST_SKIP() << "skipped: cuDNN joins no block's end on this GPU";
  }
  void expect_agreement(const char* what) {
    for (const ChainCase& c : chain_cases()) {
      expect_close(what, c, run_block_end(c, gpu), run_block_end(c, reference_device));
    }
  }
};

// cuDNN has the pattern for convolutions that do not stride.
TEST_F(CudaChainBlockEnds, JoinWithEveryConvolutionThatDoesNotStride) {
  for (const ChainCase& c : chain_cases()) {
    EXPECT_EQ(is_joint_block_end(c), c.options.stride.h == 1) << c.x.str() << c.w.str();
  }
  use(ConvolutionChaining::never, 0);
  EXPECT_FALSE(is_joint_block_end(chain_cases()[1]));
}

TEST_F(CudaChainBlockEnds, AgreeWithTheReference) {
  expect_agreement("joined");
  use(ConvolutionChaining::never, 0);
  expect_agreement("apart");
}

TEST_F(CudaChainBlockEnds, AgreeWithTheReferenceWhenTimed) {
  use(ConvolutionChaining::always, 600);
  for (const char* what : {"first run", "timed engines"}) expect_agreement(what);
  use(ConvolutionChaining::faster, 600);
  for (const char* what : {"untested", "timed against apart", "chosen"}) expect_agreement(what);
  const std::string table = backend_of(gpu).export_plans();
  EXPECT_NE(table.find("chain backward_input f16"), std::string::npos) << table;
}

}  // namespace
}  // namespace whisker::test
