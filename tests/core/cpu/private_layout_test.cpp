// Activations that stay in a blocked layout inside their storage: nothing outside can tell.
#include "core/autograd/autograd.h"
#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/layout/blocked_layout.h"
#include "tests/support/agreement.h"
#include "tests/support/norm_state.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;
constexpr ActivationSpec relu_spec{.kind = Activation::relu};

/// The heuristic's choices, so that a test's rounding does not depend on timing.
class CpuPrivateLayout : public ::testing::Test {
 protected:
  void SetUp() override { set_cpu_options({.deterministic = true}); }
  void TearDown() override { set_cpu_options({}); }
};

TEST_F(CpuPrivateLayout, ConvertsAndComesBack) {
  for (const int64_t channels : {1, 8, 16, 35, 48}) {
    const cpu::ImageLayout plain{.n = 3, .positions = 21, .channels = channels};
    for (const auto& a :
         {plain.blocked(16), plain.blocked(8),
          cpu::ImageLayout{
              .layout = cpu::Layout::planar, .n = 3, .positions = 21, .channels = channels}}) {
      std::vector<float> values(static_cast<size_t>(plain.count()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
      std::vector<float> converted(static_cast<size_t>(a.count()), -1.0f);
      cpu::convert_layout(a, 4, false, values.data(), converted.data());
      double sum = 0;
      for (const float v : converted) sum += v;
      const auto count = static_cast<double>(values.size());
      EXPECT_EQ(sum, count * (count + 1) / 2) << "padding is not zero";
      std::vector<float> back(values.size(), -1.0f);
      cpu::convert_layout(a, 4, true, back.data(), converted.data());
      EXPECT_EQ(values, back) << channels;

      std::vector<uint16_t> halves(values.begin(), values.end());
      std::vector<uint16_t> half_converted(static_cast<size_t>(a.count()));
      cpu::convert_layout(a, 2, false, halves.data(), half_converted.data());
      EXPECT_TRUE(std::equal(converted.begin(), converted.end(), half_converted.begin()));
      std::vector<uint16_t> half_back(halves.size());
      cpu::convert_layout(a, 2, true, half_back.data(), half_converted.data());
      EXPECT_EQ(halves, half_back) << channels;
    }
  }
}

Tensor layout_network(Operands x, bool training) {
  const auto state = [&] { return norm_state(x[2].count(), x[0].options()); };
  const Tensor stem = conv2d(x[0], x[1], {}, {.stride = 2, .padding = 3});
  const Tensor normal =
      batch_norm(stem, x[2], x[3], state(), {.training = training, .activation = relu_spec});
  const Tensor pooled = max_pool2d(normal, {.kernel = 3, .stride = Pair(2), .padding = 1});
  const Tensor inner = conv2d(pooled, x[4], {}, {.padding = 1});
  const Tensor normed = batch_norm(inner, x[2], x[3], state(),
                                   {.training = training, .activation = relu_spec}, pooled);
  const Tensor gated = mul(silu(normed), affine(normed, 0.5, 1));
  const Tensor averaged = avg_pool2d(gated + pooled, {.kernel = 2});
  return linear(global_avg_pool2d(averaged), x[5], {});
}

TEST_F(CpuPrivateLayout, ChainsAgreeWithTheReference) {
  for (const int64_t channels : {16, 32, 20}) {  // 20: padded channels
    for (const bool training : {true, false}) {
      expect_agreement({fmt::format("network {} {}", channels, training),
                        {{2, 37, 33, 3},
                         {channels, 7, 7, 3},
                         {channels},
                         {channels},
                         {channels, 3, 3, channels},
                         {5, channels}},
                        [=](Operands x) { return layout_network(x, training); },
                        1e-3});
    }
  }
}

TEST_F(CpuPrivateLayout, FlattenAndGradientBothCross) {
  expect_agreement({"flatten",
                    {{2, 9, 9, 16}, {32, 3, 3, 16}, {32}, {7, 32 * 3 * 3}},
                    [](Operands x) {
                      const Tensor y = max_pool2d(
                          conv2d(x[0], x[1], x[2], {.activation = relu_spec}), {.kernel = 2});
                      return linear(y.reshape({2, -1}), x[3], {});
                    },
                    1e-4});
}

TEST_F(CpuPrivateLayout, PoolingInTheConvolutionAgreesWithTheReference) {
  const auto agree = [](int64_t c, int64_t c_out, ActivationSpec f, const Pool2dOptions& pool) {
    expect_agreement({fmt::format("{} {} {}", c, c_out, name_of(f.kind)),
                      {{3, 19, 18, c}, {c_out, 3, 3, c}, {c_out}, {2 * c_out, 3, 3, c_out}},
                      [=](Operands x) {
                        const Tensor y = conv2d(x[0], x[1], x[2],
                                                {.padding = 1, .activation = f, .max_pool = pool});
                        return conv2d(y, x[3], {});
                      },
                      1e-4});
  };
  for (const int64_t c : {3, 5, 32}) {
    agree(c, 32, relu_spec, {});
    agree(c, 20, relu_spec, {.kernel = 3, .stride = Pair(2), .ceil = true});
    agree(c, 20, {Activation::sigmoid}, {.kernel = 3, .stride = Pair(2), .padding = 1});
  }
}

// What is_monotonic promises to the operator: whether one or two of them, the same result.
TEST_F(CpuPrivateLayout, PoolingInTheConvolutionIsPoolingBehindIt) {
  const Tensor x = rand_normal({2, 12, 11, 3}, 0, 1, 1, 1);
  const Tensor w = rand_normal({24, 3, 3, 3}, 0, 0.3, 1, 2);
  for (const ActivationSpec f :
       {relu_spec, ActivationSpec{Activation::gelu}, ActivationSpec{Activation::silu},
        ActivationSpec{Activation::leaky_relu, 0.1f}, ActivationSpec{}}) {
    const Pool2dOptions pool{.kernel = 3, .stride = Pair(2)};
    const Tensor fused = conv2d(x, w, {}, {.activation = f, .max_pool = pool});
    const Tensor unfused = max_pool2d(conv2d(x, w, {}, {.activation = f}), pool);
    EXPECT_EQ(fused.to_vector(), unfused.to_vector()) << name_of(f.kind);
  }
}

TEST_F(CpuPrivateLayout, InputsAreNeverMoved) {
  const Tensor x = ones({1, 6, 6, 16});
  const Tensor w = ones({16, 3, 3, 16});
  const float* x_before = x.data<float>().data();
  const float* w_before = w.data<float>().data();
  const Tensor y = conv2d(x, w, {});
  EXPECT_EQ(x.data<float>().data(), x_before);
  EXPECT_EQ(w.data<float>().data(), w_before);
  EXPECT_EQ(y.data<float>()[0], 144.0f);
}

TEST_F(CpuPrivateLayout, ReadingConvertsOnceInPlace) {
  const Tensor y = conv2d(ones({1, 6, 6, 16}), ones({16, 3, 3, 16}), {});
  const Tensor view = y.reshape({16, 16});
  const float* first = view.data<float>().data();
  EXPECT_EQ(y.data<float>().data(), first);
  EXPECT_EQ(y.storage()->form(), nullptr);
}

TEST_F(CpuPrivateLayout, WritesAreSeenByTheNextConvolution) {
  const Tensor x = ones({1, 4, 4, 16});
  const Tensor w = ones({16, 1, 1, 16});
  EXPECT_EQ(conv2d(x, w, {}).data<float>()[0], 16.0f);
  w.fill_(2);
  EXPECT_EQ(conv2d(x, w, {}).data<float>()[0], 32.0f);
  w.data<float>()[0] = 3;  // without notice
  EXPECT_EQ(conv2d(x, w, {}).data<float>()[0], 33.0f);
  const Tensor y = conv2d(x, w, {});
  y.fill_(1);
  EXPECT_EQ(conv2d(y, w, {}).data<float>()[0], 33.0f);
}

// Kept in one order: other extents, another algorithm and gradients find the same
// weights.
TEST_F(CpuPrivateLayout, ConstantWeightsGiveTheSameResults) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor w = rand_normal({64, 3, 3, 64}, 0, 0.1, 1, 1).to(dtype);
    const Tensor constant = w.clone();
    constant.storage()->set_constant();
    const auto result = [&](const Shape& images, const Tensor& weights, bool backwards) {
      Tensor x = rand_normal(images, 0, 1, 1, 2).to(dtype);
      if (backwards) x.set_requires_grad();
      const Tensor y = conv2d(x, weights, {}, {.padding = 1, .activation = relu_spec});
      if (!backwards) return y.to_vector();
      backward(sum(y));
      return x.grad().to_vector();
    };
    for (int pass = 0; pass < 2; ++pass) {
      for (const Shape& images : {Shape{1, 7, 7, 64}, Shape{2, 14, 13, 64}}) {
        for (const bool backwards : {false, true}) {
          EXPECT_EQ(result(images, constant, backwards), result(images, w, backwards));
        }
      }
    }
    EXPECT_EQ(constant.to_vector(), w.to_vector());
  }
}

// Note [Winograd tolerance]
// F(4x4, 3x3) adds and multiplies with constants up to 8 in f32 (Lavin and Gray 2016, section
// 4.3): its error is about 30 times that of direct summation. Accuracy class `winograd`: 1e-4 of
// the largest result, where direct convolutions keep 2e-5.
TEST(CpuWinograd, KeepsItsAccuracyClass) {
  const auto run = [](bool winograd) {
    set_cpu_options({.winograd = winograd, .deterministic = true});
    expect_agreement({winograd ? "winograd" : "direct",
                      {{2, 28, 28, 64}, {64, 3, 3, 64}},
                      [](Operands x) { return conv2d(x[0], x[1], {}, {.padding = 1}); },
                      winograd ? 1e-4 : 2e-5});
    set_cpu_options({});
  };
  run(true);
  run(false);
}

}  // namespace
}  // namespace whisker::test
