// A NaN survives every activation, on every device and in every form of the operator: alone, fused
// into a product, a convolution or a normalisation, before or after pooling; and the exponentials
// of softmax and recurrent layers.
#include "core/cpu/cpu_backend.h"
#include "core/ops/recurrent.h"
#include "tests/support/nans.h"

#include <array>

namespace whisker::test {
namespace {

/// The same for operators that apply the activation in their own product. On a GPU cuDNN's and
/// cuBLASLt's relu gives 0 for a NaN: a run is stopped by the NaN's other traces instead (the
/// gradient of the weights, the search before every save).
void for_each_fused_form(const std::function<void(TensorOptions, ActivationSpec)>& fn) {
  for_each_form([&](TensorOptions options, ActivationSpec f) {
    const bool lost = options.device.kind == DeviceKind::cuda && f.kind == Activation::relu;
    if (!lost) fn(options, f);
  });
}

TEST(NaN, StaysInActivations) {
  for_each_form([](TensorOptions options, ActivationSpec f) {
    const Tensor x = with_nan({3, 37}, 40, options);
    expect_nans(activation(x, f), [](int64_t i) { return i == 40; });
  });
}

// Without Winograd's algorithm, which computes tiles of outputs together: there a NaN fills its
// tile.
TEST(NaN, InAnImageReachesItsNeighboursThroughAConvolution) {
  struct WithoutWinograd {
    WithoutWinograd() { set_cpu_options({.winograd = false}); }
    ~WithoutWinograd() { set_cpu_options({}); }
  } const direct;
  for_each_fused_form([](TensorOptions options, ActivationSpec f) {
    for (const ConvCase& s : convolutions) {
      const int64_t places = s.side * s.side, out = s.side - s.kernel + 1;
      const int64_t row = 2, column = 1;  // of the second image
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
    for_each_convolution([&](const ConvCase& s) {
      const Conv2dOptions how{.stride = s.stride, .activation = f};
      const Tensor x = with_nan({2, s.side, s.side, s.c}, -1, options);
      const Shape shape{s.c_out, s.kernel, s.kernel, s.c};
      const auto second = [&](int64_t i) { return i % s.c_out == 1; };
      const Tensor spoilt = with_nan(shape, shape.count() / s.c_out, options);
      expect_nans(conv2d(x, spoilt, with_nan({s.c_out}, -1, options), how), second);
      const Tensor sound = with_nan(shape, -1, options);
      expect_nans(conv2d(x, sound, with_nan({s.c_out}, 1, options), how), second);
    });
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

void for_each_host_dtype(const std::function<void(TensorOptions)>& fn) {
  for (const Device device : {reference_device, cpu_device}) {
    for (const DType dtype : test_dtypes(device)) {
      SCOPED_TRACE(fmt::format("{} {}", device, dtype));
      fn({.dtype = dtype, .device = device});
    }
  }
}

// Rows of 37: more than two vectors of any width, and a rest.
TEST(NaN, StaysInItsRowOfASoftmax) {
  for_each_host_dtype([](TensorOptions options) {
    const Tensor x = with_nan({3, 37}, 40, options);
    const auto second = [](int64_t i) { return i / 37 == 1; };
    expect_nans(softmax(x), second);
    expect_nans(log_softmax(x), second);
  });
}

TEST(NaN, DoesNotComeOfAMaskedLogit) {
  for_each_host_dtype([](TensorOptions options) {
    std::vector<double> logits(37, -infinity);
    logits[5] = logits[36] = 3;
    const std::vector<double> y = softmax(from_vector(logits, {1, 37}, options)).to_vector();
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y[i], i == 5 || i == 36 ? 0.5 : 0, 1e-6) << i;
    }
  });
}

TEST(NaN, StaysInItsSequenceOfARecurrentLayer) {
  constexpr int64_t steps = 3, batch = 4, features = 5, hidden = 37;
  constexpr int64_t step = 1, sequence = 2;
  for_each_host_dtype([](TensorOptions options) {
    for (const auto kind : {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu, RecurrentKind::lstm,
                            RecurrentKind::gru}) {
      const int64_t rows = RecurrentGeometry{.kind = kind}.gates() * hidden;
      const RecurrentParameters cell{.w_ih = with_nan({rows, features}, -1, options),
                                     .w_hh = with_nan({rows, hidden}, -1, options),
                                     .b_ih = with_nan({rows}, -1, options),
                                     .b_hh = with_nan({rows}, -1, options)};
      const Tensor x =
          with_nan({steps, batch, features}, (step * batch + sequence) * features, options);
      const Tensor y = recurrent(x, std::array{cell}, {.kind = kind}).y;
      expect_nans(y, [](int64_t i) {
        return i / hidden % batch == sequence && i / hidden / batch >= step;
      });
    }
  });
}

}  // namespace
}  // namespace whisker::test
