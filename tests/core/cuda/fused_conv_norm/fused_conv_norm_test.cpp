// Convolutions with parts of batch norms in them against the reference, in f16, wherever cuDNN can
// join them and where timing chose to.
#include "conv_norm_case.h"
#include "core/backend/fused_ops.h"

namespace whisker::test {
namespace {

TEST_F(CudaConvNorm, JoinEveryCase) {
  for (const ConvNormCase& c : conv_norm_cases())
    EXPECT_TRUE(is_fused(c)) << c.x.str() << c.w.str();
  use(ConvNormFusion::never, 0);
  EXPECT_FALSE(is_fused(conv_norm_cases()[1]));
}

// Nobody has tried how cuDNN's fused engines pad.
TEST_F(CudaConvNorm, LeaveOutPaddingThatDiffersBySide) {
  const ConvNormCase c{
      {2, 14, 14, 64}, {64, 3, 3, 64}, {.stride = 2, .padding_mode = PaddingMode::same}};
  EXPECT_FALSE(is_fused(c));
  const Tensor x = zeros(c.x, {.dtype = DType::f16, .device = gpu});
  const Tensor w = zeros(c.w, {.dtype = DType::f16, .device = gpu});
  EXPECT_FALSE(conv2d_with_sums(x, w, c.options).sums.defined());
}

TEST_F(CudaConvNorm, AgreeWithTheReference) {
  expect_agreement("fused");
}

TEST_F(CudaConvNorm, AgreeWithTheReferenceWhenTimed) {
  use(ConvNormFusion::always, 600);
  expect_agreement("first run");
  expect_agreement("timed engines");
  use(ConvNormFusion::faster, 600);
  for (const char* what : {"untested", "timed against unfused", "chosen"}) expect_agreement(what);
  const std::string table = backend_of(gpu).export_algorithms();
  EXPECT_NE(table.find("chain forward f16"), std::string::npos) << table;
}

TEST_F(CudaConvNorm, AddToGradients) {
  const ConvNormCase& c = conv_norm_cases()[2];
  const Results once = run_conv_norm(c, gpu, 1), twice = run_conv_norm(c, gpu, 2);
  for (size_t i = 1; i <= 4; ++i) {
    std::vector<double> doubled = once[i].second;
    for (double& v : doubled) v *= 2;
    EXPECT_TRUE(close(twice[i].second, doubled, 2e-3, 0)) << once[i].first;
  }
}

// cuDNN's sums do not repeat, so that only own kernels are fused then.
TEST_F(CudaConvNorm, RepeatBitForBitWhenDeterministic) {
  use(ConvNormFusion::always, 0, true);
  for (const ConvNormCase& c : conv_norm_cases()) {
    const Conv2dGeometry g = conv2d_geometry(c.x, c.w, false, c.options, DType::f16);
    EXPECT_EQ(is_fused(c), fuses_pointwise_norm(g)) << c.x.str() << c.w.str();
    const Results once = run_conv_norm(c, gpu), again = run_conv_norm(c, gpu);
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(once[i].second, again[i].second)
          << once[i].first << " of x " << c.x.str() << " w " << c.w.str();
    }
  }
}

// Each sum within the rounding of its terms, whether those were rounded before or after.
TEST_F(CudaConvNorm, SumsAreThoseOfTheResult) {
  for (const ConvNormCase& c : conv_norm_cases()) {
    const Tensor x = on(gpu, numbers(c.x, 0, 0.25, 0, 1), c.x, DType::f16);
    const Tensor w = on(gpu, numbers(c.w, 3, 0, 0, 0.5), c.w, DType::f16);
    const Convolved got = conv2d_with_sums(x, w, c.options);
    const Tensor expected = conv2d(x.to(DType::f32).to(reference_device),
                                   w.to(DType::f32).to(reference_device), {}, c.options);
    EXPECT_TRUE(close(got.y.to_vector(), expected.to_vector(), tolerance(DType::f16, 1), 0));
    ASSERT_TRUE(got.sums.defined()) << c.x.str() << c.w.str();
    const auto y = got.y.to_vector(), sums = got.sums.to_vector();
    const auto filters = static_cast<size_t>(c.w[0]);
    ASSERT_EQ(sums.size(), 2 * filters);
    for (size_t k = 0; k < filters; ++k) {
      double sum = 0, squares = 0, magnitudes = 0;
      for (size_t i = k; i < y.size(); i += filters) {
        sum += y[i];
        squares += y[i] * y[i];
        magnitudes += std::fabs(y[i]);
      }
      EXPECT_NEAR(sums[k], sum, 0x1p-11 * magnitudes + 1e-3) << c.x.str() << c.w.str() << " " << k;
      EXPECT_NEAR(sums[filters + k], squares, 0x1p-9 * squares + 1e-3) << c.x.str() << k;
    }
  }
}

// A batch_norm given its x's sums is the batch_norm that looks for itself.
TEST_F(CudaConvNorm, SumsSpareBatchNormItsPass) {
  const ConvNormCase& c = conv_norm_cases()[6];
  const Shape channels{c.w[0]};
  const TensorOptions f32{.device = gpu};
  const Convolved x =
      conv2d_with_sums(on(gpu, numbers(c.x, 0, 0.25, 0, 1), c.x, DType::f16),
                       on(gpu, numbers(c.w, 3, 0, 0, 0.5), c.w, DType::f16), c.options);
  ASSERT_TRUE(x.sums.defined());
  std::vector<std::vector<double>> results[2];
  for (const bool given : {false, true}) {
    const Tensor leaf = x.y.detach().set_requires_grad();
    const Tensor gamma = ones(channels, f32).set_requires_grad();
    const Tensor beta = zeros(channels, f32).set_requires_grad();
    BatchNormState state{.running_mean = zeros(channels, f32),
                         .running_var = ones(channels, f32),
                         .pending_mean = zeros(channels, f32),
                         .pending_var = zeros(channels, f32)};
    if (given) state.sums = x.sums;
    const Tensor y = batch_norm(leaf, gamma, beta, state, {.training = true});
    backward(y, {.gradient = on(gpu, numbers(y.shape(), 4, 0.5, 0, 0.5), y.shape(), DType::f16)});
    results[given] = {
        y.to_vector(),           leaf.grad().to_vector(),        gamma.grad().to_vector(),
        beta.grad().to_vector(), state.pending_mean.to_vector(), state.pending_var.to_vector()};
  }
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(close(results[1][i], results[0][i], 0x1p-9, 0)) << i;
  }
}

}  // namespace
}  // namespace whisker::test
