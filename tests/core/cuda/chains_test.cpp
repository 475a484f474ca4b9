// Convolutions with parts of batch norms in them against the reference, in f16, wherever cuDNN can
// join them and where timing chose to.
#include "core/autograd.h"
#include "core/ops.h"
#include "gpu.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <numeric>

namespace whisker::test {
namespace {

struct ChainCase {
  Shape x, w;
  Conv2dOptions options = {};
};

const std::vector<ChainCase>& chain_cases() {
  static const std::vector<ChainCase> cases = {
      {{2, 4, 4, 16}, {8, 1, 1, 16}},
      {{2, 14, 14, 64}, {64, 3, 3, 64}, {.padding = 1}},
      {{3, 15, 17, 24}, {40, 3, 3, 24}, {.padding = 1}},
      {{2, 15, 14, 64}, {128, 3, 3, 64}, {.stride = 2, .padding = 1}},
      {{2, 14, 14, 256}, {64, 1, 1, 256}},
      {{2, 14, 14, 64}, {256, 1, 1, 64}, {.stride = 2}},
      {{4, 56, 56, 64}, {64, 3, 3, 64}, {.padding = 1}},
  };
  return cases;
}

/// How this device takes numbers that f16 can hold.
Tensor on(Device device, const std::vector<double>& values, const Shape& shape, DType dtype) {
  const Tensor rounded =
      from_vector(values, shape, {.device = reference_device}).to(DType::f16).to(DType::f32);
  return rounded.to(device == reference_device ? DType::f32 : dtype).to(device);
}

/// Numbers around `center`, at least `gap` away from zero on both sides of it.
std::vector<double> numbers(const Shape& shape, uint64_t stream, double center, double gap,
                            double spread) {
  std::vector<double> values =
      rand_uniform(shape, -1, 1, 11, stream, {.device = reference_device}).to_vector();
  for (double& v : values) v = center + std::copysign(gap, v) + spread * v;
  return values;
}

using Results = std::vector<std::pair<const char*, std::vector<double>>>;

/// No operand of relu is near zero, lest rounding turn whole gradients on and off.
Results run_chain(const ChainCase& c, Device device, int passes = 1) {
  const Shape channels{c.x[3]};
  const Tensor x = on(device, numbers(c.x, 0, 0, 1, 0.5), c.x, DType::f16).set_requires_grad();
  const Tensor gamma =
      on(device, numbers(channels, 1, 1, 0, 0.25), channels, DType::f32).set_requires_grad();
  const Tensor beta =
      on(device, numbers(channels, 2, 0, 0, 0.25), channels, DType::f32).set_requires_grad();
  const Tensor w = on(device, numbers(c.w, 3, 0, 0, 0.5), c.w, DType::f16).set_requires_grad();
  const TensorOptions f32{.device = device};
  const BatchNormState state{.running_mean = zeros(channels, f32),
                             .running_var = ones(channels, f32),
                             .pending_mean = zeros(channels, f32),
                             .pending_var = zeros(channels, f32)};
  Convolved y;
  for (int pass = 0; pass < passes; ++pass) {
    y = batch_norm_conv2d(x,
                          {.gamma = gamma,
                           .beta = beta,
                           .state = state,
                           .options = {.training = true, .activation = {Activation::relu}}},
                          w, c.options);
    // A mean far from zero, so that every term of the batch_norm's gradient shows.
    const Tensor dy = on(device, numbers(y.y.shape(), 4, 0.5, 0, 0.5), y.y.shape(), DType::f16);
    backward(y.y, {.gradient = dy});
  }
  return {{"y", y.y.to_vector()},
          {"dx", x.grad().to_vector()},
          {"dgamma", gamma.grad().to_vector()},
          {"dbeta", beta.grad().to_vector()},
          {"dw", w.grad().to_vector()},
          {"mean", state.pending_mean.to_vector()},
          {"variance", state.pending_var.to_vector()}};
}

bool joins(const ChainCase& c, const Tensor& sums = {}) {
  BatchNormState state;
  state.sums = sums;
  const Shape channels{c.x[3]};
  const TensorOptions f16{.dtype = DType::f16, .device = gpu}, f32{.device = gpu};
  return joins_batch_norm(zeros(c.x, f16),
                          {.gamma = ones(channels, f32),
                           .beta = zeros(channels, f32),
                           .state = state,
                           .options = {.training = true, .activation = {Activation::relu}}},
                          zeros(c.w, f16), c.options);
}

/// The end of a block and what reads it: a convolution, and something that looks at y itself.
Results run_block_end(const ChainCase& c, Device device) {
  const Shape channels{c.x[3]};
  const Tensor x = on(device, numbers(c.x, 0, 0, 1, 0.5), c.x, DType::f16).set_requires_grad();
  const Tensor residual =
      on(device, numbers(c.x, 5, 0, 0, 0.25), c.x, DType::f16).set_requires_grad();
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

bool joins_block_end(const ChainCase& c) {
  const Shape channels{c.x[3]};
  const TensorOptions f16{.dtype = DType::f16, .device = gpu}, f32{.device = gpu};
  return joins_batch_norm(zeros(c.x, f16),
                          {.gamma = ones(channels, f32),
                           .beta = zeros(channels, f32),
                           .state = {},
                           .options = {.training = true, .activation = {Activation::relu}},
                           .residual = zeros(c.x, f16)},
                          zeros(c.w, f16), c.options);
}

class CudaChains : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    use(ConvolutionChaining::always, 0);
    if (!joins(chain_cases()[1])) GTEST_SKIP() << "skipped: cuDNN joins nothing on this GPU";
  }
  void use(ConvolutionChaining chaining, double search_seconds, bool deterministic = false) {
    CudaOptions options = exact_options();
    options.chaining = chaining;
    options.search_seconds = search_seconds;
    options.deterministic = deterministic;
    forget_choices(options);
  }
  // Operands have f16's rounding, and the normalised ones once more.
  void expect_agreement(const char* what) {
    for (const ChainCase& c : chain_cases()) {
      expect_close(what, c, run_chain(c, gpu), run_chain(c, reference_device));
    }
  }
  void expect_agreement_at_block_ends(const char* what) {
    for (const ChainCase& c : chain_cases()) {
      expect_close(what, c, run_block_end(c, gpu), run_block_end(c, reference_device));
    }
  }
  static void expect_close(const char* what, const ChainCase& c, const Results& got,
                           const Results& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(close(got[i].second, expected[i].second, 0.01, 1e-3))
          << what << ": " << expected[i].first << " of x " << c.x.str() << " w " << c.w.str();
    }
  }
};

TEST_F(CudaChains, JoinEveryCase) {
  for (const ChainCase& c : chain_cases()) EXPECT_TRUE(joins(c)) << c.x.str() << c.w.str();
  use(ConvolutionChaining::never, 0);
  EXPECT_FALSE(joins(chain_cases()[1]));
}

TEST_F(CudaChains, AgreeWithTheReference) {
  expect_agreement("joined");
}

TEST_F(CudaChains, AgreeWithTheReferenceWhenTimed) {
  use(ConvolutionChaining::always, 600);
  expect_agreement("first run");
  expect_agreement("timed engines");
  use(ConvolutionChaining::faster, 600);
  for (const char* what : {"untested", "timed against apart", "chosen"}) expect_agreement(what);
  const std::string table = backend_of(gpu).export_plans();
  EXPECT_NE(table.find("chain forward f16"), std::string::npos) << table;
}

// cuDNN has the pattern for convolutions that do not stride.
TEST_F(CudaChains, JoinEveryBlockEndThatDoesNotStride) {
  for (const ChainCase& c : chain_cases()) {
    EXPECT_EQ(joins_block_end(c), c.options.stride.h == 1) << c.x.str() << c.w.str();
  }
  use(ConvolutionChaining::never, 0);
  EXPECT_FALSE(joins_block_end(chain_cases()[1]));
}

TEST_F(CudaChains, BlockEndsAgreeWithTheReference) {
  expect_agreement_at_block_ends("joined");
  use(ConvolutionChaining::never, 0);
  expect_agreement_at_block_ends("apart");
}

TEST_F(CudaChains, BlockEndsAgreeWithTheReferenceWhenTimed) {
  use(ConvolutionChaining::always, 600);
  for (const char* what : {"first run", "timed engines"}) expect_agreement_at_block_ends(what);
  use(ConvolutionChaining::faster, 600);
  for (const char* what : {"untested", "timed against apart", "chosen"}) {
    expect_agreement_at_block_ends(what);
  }
  const std::string table = backend_of(gpu).export_plans();
  EXPECT_NE(table.find("chain backward_input f16"), std::string::npos) << table;
}

TEST_F(CudaChains, AddToGradients) {
  const ChainCase& c = chain_cases()[2];
  const Results once = run_chain(c, gpu, 1), twice = run_chain(c, gpu, 2);
  for (size_t i = 1; i <= 4; ++i) {
    std::vector<double> doubled = once[i].second;
    for (double& v : doubled) v *= 2;
    EXPECT_TRUE(close(twice[i].second, doubled, 2e-3, 0)) << once[i].first;
  }
}

// cuDNN's sums do not repeat, so that nothing is joined then.
TEST_F(CudaChains, RepeatBitForBitWhenDeterministic) {
  use(ConvolutionChaining::always, 0, true);
  for (const ChainCase& c : chain_cases()) {
    EXPECT_FALSE(joins(c)) << c.x.str() << c.w.str();
    const Results once = run_chain(c, gpu), again = run_chain(c, gpu);
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(once[i].second, again[i].second)
          << once[i].first << " of x " << c.x.str() << " w " << c.w.str();
    }
  }
}

/// `table` with `choice` in place of what timing found for its links.
std::string with_links(std::string table, const std::string& choice) {
  for (size_t row = table.find("\"chain "); row != std::string::npos;
       row = table.find("\"chain ", row + 1)) {
    const size_t begin = table.find("\":\"", row) + 3;
    table.replace(begin, table.find('"', begin) - begin, choice);
  }
  return table;
}

// Whatever timing found: an imported table's word counts, either way.
TEST_F(CudaChains, FollowImportedChoices) {
  const ChainCase& c = chain_cases()[6];
  use(ConvolutionChaining::faster, 600);
  for (int run = 0; run < 3; ++run) run_chain(c, gpu);
  const std::string timed = backend_of(gpu).export_plans();
  const Results expected = run_chain(c, reference_device);
  for (const bool joined : {true, false}) {
    use(ConvolutionChaining::faster, 0);
    EXPECT_FALSE(joins(c)) << "nothing is joined untested";
    const std::string table = with_links(timed, joined ? "joined" : "separate");
    backend_of(gpu).import_plans(table);
    EXPECT_EQ(joins(c), joined) << table;
    expect_close(joined ? "joined" : "separate", c, run_chain(c, gpu), expected);
    EXPECT_EQ(backend_of(gpu).export_plans(), table);
  }
}

// A link is a choice of its own where its statistics are given.
TEST_F(CudaChains, TellLinksWithGivenSumsApart) {
  use(ConvolutionChaining::faster, 600);
  const ChainCase& c = chain_cases()[1];
  for (int run = 0; run < 2; ++run) {
    joins(c);
    joins(c, zeros({2, c.x[3]}, {.device = gpu}));
  }
  const std::string table = backend_of(gpu).export_plans();
  const size_t with = table.find("sums given sums\":"), without = table.find("sums\":\"");
  EXPECT_NE(with, std::string::npos) << table;
  EXPECT_NE(without, std::string::npos) << table;
}

TEST_F(CudaChains, LeaveNoWorkspaceBehind) {
  const MemoryStats before = backend_of(gpu).memory_stats();
  use(ConvolutionChaining::faster, 600);
  for (int run = 0; run < 3; ++run) run_chain(chain_cases()[1], gpu);
  backend_of(gpu).synchronize();
  EXPECT_EQ(backend_of(gpu).memory_stats().allocated, before.allocated);
}

// Each sum within the rounding of its terms, whether those were rounded before or after.
TEST_F(CudaChains, SumsAreThoseOfTheResult) {
  for (const ChainCase& c : chain_cases()) {
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
TEST_F(CudaChains, SumsSpareBatchNormItsPass) {
  const ChainCase& c = chain_cases()[6];
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
