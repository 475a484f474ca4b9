// A batch_norm with its activation and a depthwise or pointwise convolution behind it, as one
// operator and as two, on every device and in every type. Where the device has no kernels both are
// the same.
#include "core/autograd/autograd.h"
#include "core/backend/fused_ops.h"
#include "core/ops/ops.h"
#include "core/trace/step_recorder.h"
#include "tests/support/devices.h"
#include "tests/support/norm_state.h"
#include "tests/support/tolerance.h"

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

struct ConvCase {
  Shape x;
  int64_t kernel;
  Conv2dOptions options = {};
  int64_t filters = 0;  // of a pointwise convolution; 0: depthwise
  double center = 0;    // of x

  Shape window() const {
    return filters > 0 ? Shape{filters, 1, 1, x[3]} : Shape{x[3], kernel, kernel, 1};
  }
};

// Depthwise: windows and strides that have kernels, uneven padding, edges of strips, several chunks
// of channels, odd numbers of small and of wide images. Pointwise: each number of outputs that has
// kernels and those between, odd and even numbers of packs, warps that share channels, tiles that
// are full and not.
const std::vector<ConvCase>& cases() {
  static const std::vector<ConvCase> all = {
      {{2, 7, 9, 8}, 3, {.padding = 1}},
      {{3, 9, 6, 16}, 3, {.stride = 2, .padding_mode = PaddingMode::same}},
      {{2, 8, 11, 72}, 5, {.padding = 2}},
      {{1, 13, 14, 24}, 5, {.stride = 2, .padding = 2}},
      {{2, 7, 7, 136}, 7, {.padding = 3}},
      {{2, 15, 12, 8}, 7, {.stride = 2, .padding = 3}},
      {{5, 7, 7, 40}, 5, {.padding = 2}},
      {{1, 3, 70, 32}, 3, {.padding = 1}},
      {{1, 5, 7, 8}, 1, {}, 8},
      {{2, 19, 21, 16}, 1, {}, 16},
      {{1, 23, 19, 24}, 1, {}, 8},
      {{3, 17, 20, 64}, 1, {}, 24},
      {{2, 15, 11, 72}, 1, {}, 24},
      {{1, 13, 11, 120}, 1, {}, 40},
      {{1, 1, 17, 128}, 1, {}, 32},
      {{1, 6, 7, 96}, 1, {}, 56},
      {{1, 9, 9, 88}, 1, {}, 64},
      {{1, 6, 5, 136}, 1, {}, 72},
      {{1, 9, 7, 240}, 1, {}, 80},
  };
  return all;
}
constexpr Activation norm_activations[] = {Activation::none,  Activation::relu,
                                           Activation::relu6, Activation::hard_swish,
                                           Activation::silu,  Activation::tanh};

/// `center` and up to `spread` around it, at least `gap` away.
std::vector<double> numbers(const Shape& shape, uint64_t stream, double center, double gap,
                            double spread) {
  std::vector<double> values =
      rand_uniform(shape, -1, 1, 11, stream, {.device = reference_device}).to_vector();
  for (double& v : values) v = center + std::copysign(gap, v) + spread * v;
  return values;
}

struct ConvRun {
  Device device;
  DType dtype;
  bool fused = true;
  std::optional<size_t> wanted = {};  // the one leaf with a gradient, where not all have one
};

/// A leaf of numbers that all devices round alike. Norms' vectors are f32 beside 16-bit images.
Tensor leaf(const ConvRun& run, size_t index, const std::vector<double>& values, const Shape& shape,
            bool of_norm = false) {
  const DType narrow = run.dtype == DType::f64 ? DType::f32 : run.dtype;
  const DType type = of_norm && run.dtype != DType::f64 ? DType::f32 : run.dtype;
  Tensor t = from_vector(values, shape, {.device = reference_device})
                 .to(of_norm ? DType::f32 : narrow)
                 .to(type)
                 .to(run.device);
  if (run.wanted.value_or(index) == index) t.set_requires_grad();
  return t;
}

struct Operands {
  std::array<Tensor, 4> leaves;  // x, gamma, beta, w
  BatchNormState state;
};
Operands operands_of(const ConvCase& c, const ConvRun& run) {
  const Shape channels{c.x[3]}, window = c.window();
  Operands in{.leaves = {leaf(run, 0, numbers(c.x, 0, c.center, 1, 0.5), c.x),
                         leaf(run, 1, numbers(channels, 1, 1, 0, 0.25), channels, true),
                         leaf(run, 2, numbers(channels, 2, 0, 0, 0.25), channels, true),
                         leaf(run, 3, numbers(window, 3, 0, 0, 0.5), window)},
              .state = {}};
  in.state = norm_state(c.x[3], in.leaves[1].options(), 0, 1);
  return in;
}

Convolved convolved(const ConvCase& c, Activation f, const Operands& in, bool fused) {
  const auto& [x, gamma, beta, w] = in.leaves;
  const BatchNormOptions options{.training = true, .activation = {f}};
  Conv2dOptions conv = c.options;
  if (c.filters == 0) conv.groups = c.x[3];
  if (fused) return batch_norm_conv2d(x, {gamma, beta, in.state, options}, w, conv);
  return {.y = conv2d(batch_norm(x, gamma, beta, in.state, options), w, {}, conv)};
}

std::vector<std::vector<double>> results_of(const ConvCase& c, Activation f, const ConvRun& run) {
  const Operands in = operands_of(c, run);
  const Tensor y = convolved(c, f, in, run.fused).y;
  const std::vector<double> dy = numbers(y.shape(), 4, 0.5, 0, 0.5);
  backward(y, {.gradient = leaf({run.device, run.dtype}, 9, dy, y.shape()).detach()});
  std::vector<std::vector<double>> results = {y.to_vector(), in.state.pending_mean.to_vector(),
                                              in.state.pending_var.to_vector()};
  for (const Tensor& one : in.leaves) {
    if (one.requires_grad()) results.push_back(one.grad().to_vector());
  }
  return results;
}

/// True where it is one operator, with an activation that a batch_norm computes.
bool is_fused(const ConvCase& c, const Device& device, DType dtype) {
  if (!has_fused_kernels(device.kind) || c.filters == 0) return has_fused_kernels(device.kind);
  const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
  const bool in_range = c.filters <= c.x[3] && c.x[3] <= 240;
  return narrow && in_range && cuda_gpu(device).capability >= 80;
}

using BatchNormConv2d = OnFusedKernels;

template <class Body>
void for_each_case(const Body& body) {
  for (const Device device : fused_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const ConvCase& c : cases()) {
        for (const Activation f : norm_activations) {
          SCOPED_TRACE(fmt::format("{} {} x {} w {} {}", device.str(), name_of(dtype), c.x.str(),
                                   c.window().str(), name_of(f)));
          body(c, f, ConvRun{device, dtype});
        }
      }
    }
  }
}

void expect_alike(const std::vector<std::vector<double>>& got,
                  const std::vector<std::vector<double>>& expected, const ConvRun& run,
                  int64_t terms) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(close(got[i], expected[i], 2 * tolerance(run.dtype, terms),
                      std::sqrt(static_cast<double>(terms))))
        << "result " << i;
  }
}

TEST_F(BatchNormConv2d, IsItsFallback) {
  for_each_case([](const ConvCase& c, Activation f, const ConvRun& fused) {
    ConvRun two = fused;
    two.fused = false;
    expect_alike(results_of(c, f, fused), results_of(c, f, two), fused, c.x.count() / c.x[3]);
  });
}

// Own kernels add sums in a fixed order; cuDNN's need not.
TEST_F(BatchNormConv2d, RepeatsBitForBit) {
  for_each_case([](const ConvCase& c, Activation f, const ConvRun& run) {
    const bool narrow = run.dtype == DType::bf16 || run.dtype == DType::f16;
    const bool fused = batch_norm_computes({f}, true) && (c.filters == 0 || narrow);
    if (!fused) return;
    EXPECT_EQ(results_of(c, f, run), results_of(c, f, run));
  });
}

// y is 10,000 deviations away from 0 in f32, some hundred in 16 bits: sums of y and of its squares
// alone would leave no digit of the variance.
TEST_F(BatchNormConv2d, LeavesTheStatisticsOfItsResult) {
  const ConvCase far_cases[] = {{{2, 9, 9, 8}, 3},
                                {{3, 11, 14, 72}, 5, {.stride = 2}},
                                {{2, 12, 21, 136}, 3, {.stride = 2}},
                                {{2, 8, 10, 8}, 7},
                                {{1, 1, 3, 8}, 1, {}, 8},
                                {{2, 9, 9, 40}, 1, {}, 16},
                                {{1, 23, 19, 24}, 1, {}, 24},
                                {{3, 31, 30, 72}, 1, {}, 40},
                                {{1, 13, 14, 240}, 1, {}, 80}};
  for (const Device device : fused_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const ConvCase& c : far_cases) {
        const bool narrow = dtype == DType::bf16 || dtype == DType::f16;
        const bool pointwise = c.filters > 0;
        const Shape channels{c.x[3]}, outputs{pointwise ? c.filters : c.x[3]};
        const ConvRun run{device, dtype};
        const auto constant = [&](double value, const Shape& shape) {
          return std::vector<double>(static_cast<size_t>(shape.count()), value);
        };
        const auto vector = [&](size_t index, double value, const Shape& shape) {
          return leaf(run, index, constant(value, shape), shape, true);
        };
        const DType statistics = dtype == DType::f64 ? DType::f64 : DType::f32;
        const auto state = [&](const Shape& shape) {
          return norm_state(shape[0], {.dtype = statistics, .device = device}, 0, 1);
        };
        const double deviation = narrow ? 2 : 0.01;
        const Tensor gamma = vector(1, deviation, channels), beta = vector(2, 100, channels);
        std::vector<double> weights =
            constant(1.0 / static_cast<double>(c.kernel * c.kernel), c.window());
        if (pointwise) {  // an output is a channel
          for (size_t i = 0; i < weights.size(); ++i) {
            weights[i] = static_cast<double>(i % (static_cast<size_t>(c.x[3]) + 1) == 0);
          }
        }
        const Tensor w = leaf(run, 3, weights, c.window());
        const Tensor x = leaf(run, 0, numbers(c.x, 0, 0, 1, 0.5), c.x);
        Conv2dOptions conv = c.options;
        if (!pointwise) conv.groups = c.x[3];
        const Tensor normalised = batch_norm(x, gamma, beta, state(channels), {.training = true});
        for (const bool fused : {true, false}) {
          const bool shifted = is_fused(c, device, dtype) && (fused || !pointwise);
          if (!shifted) continue;  // cuDNN's convolutions
          SCOPED_TRACE(fmt::format("{} {} x {} w {} fused {}", device.str(), name_of(dtype),
                                   c.x.str(), c.window().str(), fused));
          const Convolved y =
              fused ? batch_norm_conv2d(x, {gamma, beta, state(channels), {.training = true}}, w,
                                        conv)
                    : conv2d_with_sums(normalised, w, conv);
          EXPECT_TRUE(y.sums.defined());
          BatchNormState behind = state(outputs);
          behind.sums = y.sums;
          batch_norm(y.y, vector(1, deviation, outputs), vector(2, 100, outputs), behind,
                     {.training = true, .momentum = 1});
          const auto all = y.y.to_vector();
          std::vector<double> mean = constant(0, outputs), variance = mean;
          const size_t rows = all.size() / mean.size();
          for (size_t i = 0; i < all.size(); ++i) {
            mean[i % mean.size()] += all[i] / static_cast<double>(rows);
          }
          for (size_t i = 0; i < all.size(); ++i) {
            variance[i % mean.size()] +=
                std::pow(all[i] - mean[i % mean.size()], 2) / static_cast<double>(rows - 1);
          }
          EXPECT_TRUE(close(behind.pending_mean.to_vector(), mean, 1e-6, 0));
          EXPECT_TRUE(close(behind.pending_var.to_vector(), variance, 1e-3, 0));
        }
      }
    }
  }
}

// More tiles of rows than a GPU has blocks at once.
TEST_F(BatchNormConv2d, IsItsFallbackOfManyRows) {
  const ConvCase many[] = {{{8, 128, 128, 16}, 1, {}, 16},
                           {{5, 112, 112, 72}, 1, {}, 24},
                           {{4, 64, 64, 240}, 1, {}, 80}};
  for (const Device device : fused_devices()) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const ConvCase& c : many) {
        SCOPED_TRACE(fmt::format("{} {} x {}", device.str(), name_of(dtype), c.x.str()));
        const ConvRun fused{device, dtype}, two{device, dtype, false};
        const auto results = results_of(c, Activation::relu6, fused);
        EXPECT_EQ(results, results_of(c, Activation::relu6, fused)) << "they do not repeat";
        expect_alike(results, results_of(c, Activation::relu6, two), fused, c.x.count() / c.x[3]);
      }
    }
  }
}

TEST_F(BatchNormConv2d, ComputesWhatIsWantedAlone) {
  for_each_case([](const ConvCase& c, Activation f, ConvRun run) {
    const auto all = results_of(c, f, run);
    for (size_t i = 0; i < 4; ++i) {
      run.wanted = i;
      const auto one = results_of(c, f, run);
      ASSERT_EQ(one.size(), 4u);
      expect_alike({one[0], one[3]}, {all[0], all[3 + i]}, run, c.x.count() / c.x[3]);
    }
  });
}

// The mean is subtracted first: x 1,000 deviations away from 0 is normalised as it is alone.
TEST_F(BatchNormConv2d, KeepsPrecisionFarFromZero) {
  for (const Device device : fused_devices()) {
    const ConvCase c{.x = {2, 9, 9, 8}, .kernel = 3, .options = {.padding = 1}, .center = 1000};
    std::vector<std::vector<double>> results;
    for (const bool fused : {true, false}) {
      results.push_back(results_of(c, Activation::none, {device, DType::f32, fused})[0]);
    }
    EXPECT_TRUE(close(results[0], results[1], 1e-5, 1)) << device.str();
  }
}

// Zeros around an image stay zeros, whatever the norm would make of them.
TEST(BatchNormConv2dOnEveryDevice, NormalisesNoPadding) {
  for (const Device device : test_devices()) {
    const ConvCase c{{1, 3, 3, 8}, 3, {.padding = 1}};
    const TensorOptions options{.device = device};
    const Shape channels{8};
    const BatchNormState state = norm_state(8, options, 0, 1);
    Conv2dOptions depthwise = c.options;
    depthwise.groups = 8;
    // gamma 0, beta 1: every element of the image becomes 1.
    const Tensor y =
        batch_norm_conv2d(
            from_vector(numbers(c.x, 0, 0, 1, 0.5), c.x, options),
            {zeros(channels, options), ones(channels, options), state, {.training = true}},
            ones({8, 3, 3, 1}, options), depthwise)
            .y;
    const double counts[] = {4, 6, 4, 6, 9, 6, 4, 6, 4};
    const std::vector<double> values = y.to_vector();
    for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], counts[i / 8]);
  }
}

// For the batch_norm behind: of what was stored.
TEST_F(BatchNormConv2d, SumsAreThoseOfItsResult) {
  for (const Device device : fused_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const ConvCase& c : cases()) {
        SCOPED_TRACE(fmt::format("{} {} x {} w {}", device.str(), name_of(dtype), c.x.str(),
                                 c.window().str()));
        const Operands in = operands_of(c, {device, dtype});
        const Convolved result = convolved(c, Activation::hard_swish, in, true);
        EXPECT_EQ(result.sums.defined(), is_fused(c, device, dtype));
        if (!result.sums.defined()) continue;
        const std::vector<double> y = result.y.to_vector();
        const auto filters = static_cast<size_t>(result.y.shape()[3]);
        std::vector<double> sums = result.sums.to_vector(), expected(2 * filters);
        ASSERT_EQ(sums.size(), 3 * filters);
        const std::vector<double> shift(sums.end() - result.y.shape()[3], sums.end());
        sums.resize(expected.size());
        for (size_t i = 0; i < y.size(); ++i) {
          const double z = y[i] - shift[i % filters];
          expected[i % filters] += z;
          expected[filters + i % filters] += z * z;
        }
        EXPECT_TRUE(close(sums, expected,
                          tolerance(DType::f32, static_cast<int64_t>(y.size() / filters)), 1));
      }
    }
  }
}

/// What runs, forward.
std::vector<std::string> operators_of(const ConvCase& c, const ConvRun& run) {
  StepRecorder recorder;
  results_of(c, Activation::hard_swish, run);
  std::vector<std::string> names;
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.kind == TapeKind::op) names.push_back(entry.name);
  }
  return names;
}

TEST(BatchNormConv2dOnEveryDevice, IsOneOperatorWhereTheDeviceHasKernels) {
  const std::vector<std::string> one = {"batch_norm_conv2d"}, two = {"batch_norm", "conv2d"};
  std::vector<ConvCase> all = cases();
  all.push_back({{1, 5, 5, 8}, 1, {}, 16});    // more outputs than channels
  all.push_back({{1, 5, 5, 248}, 1, {}, 24});  // too many channels
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const ConvCase& c : all) {
        SCOPED_TRACE(fmt::format("{} {} x {} w {}", device.str(), name_of(dtype), c.x.str(),
                                 c.window().str()));
        EXPECT_EQ(operators_of(c, {device, dtype}), is_fused(c, device, dtype) ? one : two);
      }
    }
  }
}

}  // namespace
}  // namespace whisker::test
