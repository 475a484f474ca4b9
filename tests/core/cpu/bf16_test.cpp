// bf16 on the CPU beyond single operators, in its own instructions where it has them and through
// f32: both agree with the reference on the same rounded operands.
#include "core/autograd/autograd.h"
#include "core/cpu/cpu_backend.h"
#include "core/cpu/layout/blocked_layout.h"
#include "core/ops/recurrent.h"
#include "tests/support/agreement.h"
#include "tests/support/norm_state.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using Operands = const std::vector<Tensor>&;

/// The parameter: whether the CPU's own bf16 may be used.
class CpuBf16 : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { set_cpu_options({.deterministic = true, .native_bf16 = GetParam()}); }
  void TearDown() override { set_cpu_options({}); }

  /// `roundings` to bf16 lie between operands and results, relative to the largest value.
  static void agree(std::string name, std::vector<Shape> shapes, TensorFunction function,
                    double roundings = 2) {
    expect_agreement(
        {std::move(name), std::move(shapes), std::move(function), roundings * 0x1p-8, DType::bf16});
  }
};

INSTANTIATE_TEST_SUITE_P(, CpuBf16, ::testing::Values(true, false), [](const auto& native) {
  return std::string(native.param ? "Native" : "ThroughF32");
});

Tensor small_network(Operands x, bool training) {
  const BatchNormState state = norm_state(x[2].count(), {.device = x[0].device()});
  const Tensor stem = conv2d(x[0], x[1], {}, {.stride = 2, .padding = 3});
  const Tensor normal = batch_norm(stem, x[2], x[3], state, {.training = training});
  const Tensor pooled = avg_pool2d(normal, {.kernel = 3, .stride = Pair(2), .padding = 1});
  const Tensor fused = batch_norm(conv2d(pooled, x[4], {}, {.padding = 1}), x[2], x[3], state,
                                  {.training = training}, pooled);
  return linear(global_avg_pool2d(fused + silu(pooled)), x[5], {});
}

TEST_P(CpuBf16, ChainsAgreeWithTheReference) {
  for (const int64_t channels : {16, 32, 20}) {  // 20: padded channels
    for (const bool training : {true, false}) {
      agree(
          fmt::format("network {} {}", channels, training),
          {{2, 37, 33, 3},
           {channels, 7, 7, 3},
           {channels},
           {channels},
           {channels, 3, 3, channels},
           {5, channels}},
          [=](Operands x) { return small_network(x, training); }, 8);
    }
  }
}

TEST_P(CpuBf16, PoolingInTheConvolutionIsPoolingBehindIt) {
  const Tensor x = rand_normal({2, 12, 11, 3}, 0, 1, 1, 1).to(DType::bf16);
  const Tensor w = rand_normal({24, 3, 3, 3}, 0, 0.3, 1, 2).to(DType::bf16);
  const ActivationSpec f{Activation::relu};
  const Tensor fused = conv2d(x, w, {}, {.activation = f, .max_pool = Pool2dOptions{}});
  EXPECT_EQ(fused.to_vector(), max_pool2d(conv2d(x, w, {}, {.activation = f}), {}).to_vector());
}

TEST_P(CpuBf16, BlockedImagesStayBlockedThroughACast) {
  const Tensor x = rand_normal({2, 6, 6, 20}, 0, 1, 1, 1).to(DType::bf16);
  const Tensor w = rand_normal({20, 3, 3, 20}, 0, 0.1, 1, 2).to(DType::bf16);
  const Tensor y = conv2d(x, w, {});
  const bool blocked = cpu::blocked_form(y) != nullptr;
  const Tensor wide = y.to(DType::f32);
  EXPECT_EQ(cpu::blocked_form(wide) != nullptr, blocked);
  EXPECT_EQ(wide.to_vector(), y.to_vector());
}

}  // namespace
}  // namespace whisker::test
