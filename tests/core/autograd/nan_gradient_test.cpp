// A NaN goes backwards where relu lets gradients through, in every form of the operator alike: Note
// [relu's gradient and NaN] in core/reference/activation_functions.h.
#include "core/autograd/autograd.h"
#include "core/ops/recurrent.h"
#include "tests/support/nans.h"

#include <algorithm>
#include <array>

namespace whisker::test {
namespace {

constexpr ActivationSpec relu_spec{Activation::relu};

void for_each_relu(const std::function<void(TensorOptions)>& fn) {
  for_each_form([&](TensorOptions options, ActivationSpec f) {
    if (f.kind == Activation::relu) fn(options);
  });
}

TEST(NaNGradient, PassesThroughReluUnlessItsOutputIsZero) {
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

TEST(NaNGradient, EndsWhereAFusedReluIsZero) {
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
    for_each_convolution([&](const ConvCase& s) {
      for (const bool pooled : {false, true}) {
        SCOPED_TRACE(pooled ? "pooled" : "not pooled");
        Tensor x = with_nan({2, s.side, s.side, s.c}, -1, options);
        const Tensor w =
            with_nan({s.c_out, s.kernel, s.kernel, s.c}, -1, options).set_requires_grad();
        const Tensor b = first_below_zero(s.c_out, options);
        Conv2dOptions how{.stride = s.stride, .activation = relu_spec};
        if (pooled) how.max_pool = Pool2dOptions{.kernel = 2, .stride = 2};
        const Tensor y = conv2d(x, w, b, how);
        for (const Tensor& d : grad(y, std::array{w, b}, {.gradient = gradient_with_nans(y, 1)})) {
          expect_only_the_second(d);
        }
        // With the image's gradient, which the NaN reaches within its image.
        x.set_requires_grad();
        const Tensor again = conv2d(x, w, b, how);
        const auto all = grad(again, std::array{w, b, x}, {.gradient = gradient_with_nans(y, 1)});
        expect_only_the_second(all[0]);
        expect_only_the_second(all[1]);
        const std::vector<double> dx = all[2].to_vector();
        const auto second = dx.begin() + static_cast<std::ptrdiff_t>(dx.size() / 2);
        const auto is_nan = [](double value) { return std::isnan(value); };
        EXPECT_TRUE(std::any_of(dx.begin(), second, is_nan));
        EXPECT_TRUE(std::none_of(second, dx.end(), is_nan));
      }
    });
  });
}

TEST(NaNGradient, GoesThroughTheReluOfABatchNormUnlessItIsZero) {
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

// On a GPU cuDNN may compute it, whose rule for unit 0 is its own; the other units keep ours.
TEST(NaNGradient, EndsWhereARecurrentReluIsZero) {
  for_each_relu([](TensorOptions options) {
    constexpr int64_t hidden = 19;
    const Tensor x = with_nan({1, 2, 3}, -1, options);
    const Tensor b = first_below_zero(hidden, options);
    const std::array cells = {RecurrentParameters{.w_ih = with_nan({hidden, 3}, -1, options),
                                                  .w_hh = with_nan({hidden, hidden}, -1, options),
                                                  .b_ih = b,
                                                  .b_hh = zeros({hidden}, options)}};
    const Tensor y = recurrent(x, cells, {.kind = RecurrentKind::rnn_relu}).y;
    const std::vector<double> db =
        grad(y, std::array{b}, {.gradient = gradient_with_nans(y, 1)})[0].to_vector();
    for (size_t i = options.device.kind == DeviceKind::cuda ? 1 : 0; i < db.size(); ++i) {
      ASSERT_EQ(std::isnan(db[i]), i == 1) << "unit " << i;
    }
  });
}

}  // namespace
}  // namespace whisker::test
