// A NaN survives every activation, on every device and in every form of the operator: alone, fused
// into a product, a convolution or a normalisation, before or after pooling. Backwards it goes
// where relu lets gradients through, in every form alike.
#include "core/autograd.h"
#include "core/cpu/cpu_backend.h"
#include "core/ops.h"
#include "tests/support/devices.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr ActivationSpec activations[] = {
    {Activation::none},    {Activation::relu}, {Activation::leaky_relu, 0.01f},
    {Activation::sigmoid}, {Activation::tanh}, {Activation::leaky_relu, 0.0f},
};

/// Runs fn(options, activation) for every device, dtype and activation.
void for_each_form(const std::function<void(TensorOptions, ActivationSpec)>& fn) {
  for (const Device device : test_devices()) {
    for (const DType dtype : test_dtypes(device)) {
      for (const ActivationSpec f : activations) {
        SCOPED_TRACE(fmt::format("{} {} {} {}", device, dtype, name_of(f.kind), f.slope));
        fn({.dtype = dtype, .device = device}, f);
      }
    }
  }
}

/// The same for operators that apply the activation in their own product. On a GPU cuDNN's and
/// cuBLASLt's relu gives 0 for a NaN: a run is stopped by the NaN's other traces instead (the
/// gradient of the weights, the search before every save).
void for_each_fused_form(const std::function<void(TensorOptions, ActivationSpec)>& fn) {
  for_each_form([&](TensorOptions options, ActivationSpec f) {
    const bool lost = options.device.kind == DeviceKind::cuda && f.kind == Activation::relu;
    if (!lost) fn(options, f);
  });
}

/// Small numbers of both signs, with a NaN at `at`.
Tensor with_nan(const Shape& shape, int64_t at, TensorOptions options) {
  std::vector<double> values(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7) / 8 - 0.375;
  if (at >= 0) values[static_cast<size_t>(at)] = nan;
  return from_vector(values, shape, options);
}

/// Exactly the elements for which `expected` holds are NaN.
void expect_nans(const Tensor& y, const std::function<bool(int64_t)>& expected) {
  const std::vector<double> values = y.to_vector();
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), expected(static_cast<int64_t>(i))) << "element " << i;
  }
}

TEST(NaN, StaysInActivations) {
  for_each_form([](TensorOptions options, ActivationSpec f) {
    const Tensor x = with_nan({3, 37}, 40, options);
    expect_nans(activation(x, f), [](int64_t i) { return i == 40; });
  });
}

struct ConvCase {
  int64_t side, c, c_out, kernel;
};

// Planes, thin and wide blocks, channels that need padding, 1x1.
constexpr ConvCase convolutions[] = {{9, 3, 16, 3},  {12, 16, 16, 3}, {14, 64, 64, 3},
                                     {6, 20, 35, 3}, {7, 16, 64, 1},  {7, 64, 16, 1},
                                     {5, 2, 3, 2}};

// Without Winograd's algorithm, which computes tiles of outputs together: there a NaN fills its
// tile.
TEST(NaN, InAPictureReachesItsNeighboursThroughAConvolution) {
  struct WithoutWinograd {
    WithoutWinograd() { set_cpu_options({.winograd = false}); }
    ~WithoutWinograd() { set_cpu_options({}); }
  } const direct;
  for_each_fused_form([](TensorOptions options, ActivationSpec f) {
    for (const ConvCase& s : convolutions) {
      const int64_t places = s.side * s.side, out = s.side - s.kernel + 1;
      const int64_t row = 2, column = 1;  // of the second picture
      const Tensor x = with_nan({2, s.side, s.side, s.c},
                                ((places + row * s.side + column) * s.c) + s.c - 1, options);
      const Tensor w = with_nan({s.c_out, s.kernel, s.kernel, s.c}, -1, options);
      const Tensor b = with_nan({s.c_out}, -1, options);
      const Tensor y = conv2d(x, w, b, {.activation = f});
      expect_nans(y, [&](int64_t i) {
        const int64_t place = i / s.c_out, inside = place % (out * out);
        const int64_t down = row - inside / out, across = column - inside % out;
        return place >= out * out && down >= 0 && down < s.kernel && across >= 0 &&
               across < s.kernel;
      });
      const Tensor pooled =
          conv2d(x, w, b, {.activation = f, .max_pool = Pool2dOptions{.kernel = out}});
      expect_nans(pooled, [&](int64_t i) { return i >= s.c_out; });
    }
  });
}

TEST(NaN, InAFilterOrABiasFillsItsChannel) {
  for_each_fused_form([](TensorOptions options, ActivationSpec f) {
    for (const ConvCase& s : convolutions) {
      const Tensor x = with_nan({2, s.side, s.side, s.c}, -1, options);
      const Shape shape{s.c_out, s.kernel, s.kernel, s.c};
      const auto second = [&](int64_t i) { return i % s.c_out == 1; };
      const Tensor spoilt = with_nan(shape, shape.count() / s.c_out, options);
      expect_nans(conv2d(x, spoilt, with_nan({s.c_out}, -1, options), {.activation = f}), second);
      const Tensor sound = with_nan(shape, -1, options);
      expect_nans(conv2d(x, sound, with_nan({s.c_out}, 1, options), {.activation = f}), second);
    }
  });
}

TEST(NaN, OfInfinitiesThatCancelInAConvolutionIsSeen) {
  for_each_fused_form([](TensorOptions options, ActivationSpec f) {
    const Tensor x = full({1, 8, 8, 16}, std::numeric_limits<double>::infinity(), options);
    std::vector<double> filters(32 * 16, 1);
    for (size_t i = 1; i < filters.size(); i += 2) filters[i] = -1;
    const Tensor y =
        conv2d(x, from_vector(filters, {32, 1, 1, 16}, options), {}, {.activation = f});
    expect_nans(y, [](int64_t) { return true; });
  });
}

TEST(NaN, StaysInLinear) {
  for_each_fused_form([](TensorOptions options, ActivationSpec f) {
    for (const int64_t features : {5, 96}) {
      const Tensor x = with_nan({4, features}, 2 * features + 3, options);
      const Tensor w = with_nan({33, features}, -1, options);
      const Tensor y = linear(x, w, with_nan({33}, -1, options), f);
      expect_nans(y, [](int64_t i) { return i / 33 == 2; });
    }
  });
}

TEST(NaN, StaysInBatchNorm) {
  for_each_form([](TensorOptions options, ActivationSpec f) {
    if (f.kind != Activation::none && f.kind != Activation::relu) return;
    const bool wide = options.dtype == DType::f64;
    const TensorOptions statistic{.dtype = wide ? DType::f64 : DType::f32,
                                  .device = options.device};
    for (const int64_t channels : {5, 16, 40}) {
      const Tensor ones_like = ones({channels}, statistic);
      const BatchNormState state{.running_mean = zeros({channels}, statistic),
                                 .running_var = ones_like,
                                 .pending_mean = {},
                                 .pending_var = {}};
      const Shape shape{2, 3, 3, channels};
      const Tensor sound = with_nan(shape, -1, options);
      const Tensor spoilt = with_nan(shape, channels + 1, options);
      const auto there = [&](int64_t i) { return i == channels + 1; };
      const auto run = [&](const Tensor& x, const Tensor& residual, bool training) {
        return batch_norm(x, ones_like, zeros({channels}, statistic), state,
                          {.training = training, .activation = f}, residual);
      };
      expect_nans(run(spoilt, {}, false), there);
      expect_nans(run(sound, spoilt, false), there);
      expect_nans(run(sound, spoilt, true), there);
      // The batch's statistics spread it over the channel.
      expect_nans(run(spoilt, {}, true), [&](int64_t i) { return i % channels == 1; });
    }
  });
}

// --- backwards: Note [relu's gradient and NaN] ---------------------------------------------------

constexpr ActivationSpec relu_spec{Activation::relu};

void for_each_relu(const std::function<void(TensorOptions)>& fn) {
  for_each_form([&](TensorOptions options, ActivationSpec f) {
    if (f.kind == Activation::relu) fn(options);
  });
}

TEST(NaN, PassesBackwardsThroughReluUnlessItsOutputIsZero) {
  for_each_relu([](TensorOptions options) {
    for (const int64_t count : {1, 4, 7, 64, 67, 1027}) {  // single elements, packs, and both
      std::vector<double> at(static_cast<size_t>(count)), arriving(at.size());
      for (size_t i = 0; i < at.size(); ++i) {
        constexpr double values[] = {nan, 1, 0, -1};
        at[i] = values[i % 4];
        arriving[i] = i / 4 % 2 == 1 ? nan : 2;
      }
      const Tensor x = from_vector(at, {count}, options).set_requires_grad();
      const std::vector<double> dx =
          grad(relu(x), std::array{x}, {.gradient = from_vector(arriving, {count}, options)})[0]
              .to_vector();
      for (size_t i = 0; i < dx.size(); ++i) {
        const bool passes = i % 4 < 2;
        ASSERT_EQ(std::isnan(dx[i]), passes && std::isnan(arriving[i])) << i << " of " << count;
        if (std::isnan(dx[i])) continue;
        ASSERT_EQ(dx[i], passes ? 2 : 0) << i << " of " << count;
      }
    }
  });
}

/// A bias that keeps channel 0 below zero and all others above.
Tensor first_below_zero(int64_t channels, TensorOptions options) {
  std::vector<double> values(static_cast<size_t>(channels), 100);
  values[0] = -100;
  return from_vector(values, {channels}, options).set_requires_grad();
}

/// Ones but for NaN in channels 0 and 1 of place `row`.
Tensor gradient_with_nans(const Tensor& y, int64_t row) {
  const int64_t channels = y.shape()[y.shape().rank() - 1];
  std::vector<double> values(static_cast<size_t>(y.count()), 1);
  values[static_cast<size_t>(row * channels)] = nan;
  values[static_cast<size_t>(row * channels + 1)] = nan;
  return from_vector(values, y.shape(), y.options());
}

/// Of a parameter whose first axis is the channels: only channel 1 is NaN.
void expect_only_the_second(const Tensor& d) {
  const int64_t each = d.count() / d.shape()[0];
  expect_nans(d, [&](int64_t i) { return i / each == 1; });
}

TEST(NaN, InAGradientEndsWhereAFusedReluIsZero) {
  for_each_relu([](TensorOptions options) {
    for (const int64_t features : {5, 96}) {
      SCOPED_TRACE(fmt::format("linear {}", features));
      const Tensor x = with_nan({4, features}, -1, options);
      const Tensor w = with_nan({33, features}, -1, options).set_requires_grad();
      const Tensor b = first_below_zero(33, options);
      const Tensor y = linear(x, w, b, relu_spec);
      for (const Tensor& d : grad(y, std::array{w, b}, {.gradient = gradient_with_nans(y, 2)})) {
        expect_only_the_second(d);
      }
    }
    for (const ConvCase& s : convolutions) {
      for (const bool pooled : {false, true}) {
        SCOPED_TRACE(fmt::format("conv2d {} {} {} {} {}", s.side, s.c, s.c_out, s.kernel, pooled));
        const Tensor x = with_nan({2, s.side, s.side, s.c}, -1, options);
        const Tensor w =
            with_nan({s.c_out, s.kernel, s.kernel, s.c}, -1, options).set_requires_grad();
        const Tensor b = first_below_zero(s.c_out, options);
        Conv2dOptions how{.activation = relu_spec};
        if (pooled) how.max_pool = Pool2dOptions{.kernel = 2, .stride = 2};
        const Tensor y = conv2d(x, w, b, how);
        for (const Tensor& d : grad(y, std::array{w, b}, {.gradient = gradient_with_nans(y, 1)})) {
          expect_only_the_second(d);
        }
      }
    }
  });
}

TEST(NaN, GoesThroughTheReluOfABatchNormUnlessItIsZero) {
  for_each_relu([](TensorOptions options) {
    const bool wide = options.dtype == DType::f64;
    const TensorOptions statistic{.dtype = wide ? DType::f64 : DType::f32,
                                  .device = options.device};
    for (const int64_t channels : {2, 5, 16, 40}) {
      for (const bool added : {false, true}) {
        SCOPED_TRACE(fmt::format("{} channels{}", channels, added ? ", residual" : ""));
        const BatchNormState state{.running_mean = zeros({channels}, statistic),
                                   .running_var = ones({channels}, statistic),
                                   .pending_mean = {},
                                   .pending_var = {}};
        const Shape shape{2, 3, 3, channels};
        const Tensor x = with_nan(shape, -1, options).set_requires_grad();
        const Tensor gamma = ones({channels}, statistic).set_requires_grad();
        const Tensor beta = first_below_zero(channels, statistic);
        // What is NaN forwards lets a gradient through.
        Tensor residual;
        if (added) residual = with_nan(shape, 2 * channels, options).set_requires_grad();
        const Tensor y = batch_norm(x, gamma, beta, state,
                                    {.training = true, .activation = relu_spec}, residual);
        const Tensor dy = gradient_with_nans(y, 1);
        for (const Tensor& d :
             grad(y, std::array{gamma, beta}, {.gradient = dy, .retain_graph = added})) {
          expect_only_the_second(d);
        }
        if (!added) continue;
        const std::vector<double> passed =
            grad(y, std::array{residual}, {.gradient = dy})[0].to_vector();
        for (size_t i = 0; i < passed.size(); ++i) {
          const auto channel = static_cast<int64_t>(i) % channels;
          const auto row = static_cast<int64_t>(i) / channels;
          if (row == 1 && channel == 1) {
            EXPECT_TRUE(std::isnan(passed[i]));
          } else {
            EXPECT_EQ(passed[i], channel > 0 || row == 2 ? 1 : 0) << "element " << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace whisker::test
