// A batch norm with relu and the convolution behind it on the GPU and on the reference: shapes that
// cuDNN can join, operands that f16 holds, results by name.
#pragma once

#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "tests/core/cuda/gpu.h"
#include "tests/support/tolerance.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace whisker::test {

struct ConvNormCase {
  Shape x, w;
  Conv2dOptions options = {};
};

inline const std::vector<ConvNormCase>& conv_norm_cases() {
  static const std::vector<ConvNormCase> cases = {
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
inline Tensor on(Device device, const std::vector<double>& values, const Shape& shape,
                 DType dtype) {
  const Tensor rounded =
      from_vector(values, shape, {.device = reference_device}).to(DType::f16).to(DType::f32);
  return rounded.to(device == reference_device ? DType::f32 : dtype).to(device);
}

/// Numbers around `center`, at least `gap` away from zero on both sides of it.
inline std::vector<double> numbers(const Shape& shape, uint64_t stream, double center, double gap,
                                   double spread) {
  std::vector<double> values =
      rand_uniform(shape, -1, 1, 11, stream, {.device = reference_device}).to_vector();
  for (double& v : values) v = center + std::copysign(gap, v) + spread * v;
  return values;
}

using Results = std::vector<std::pair<const char*, std::vector<double>>>;

struct ConvNormLeaves {
  Tensor x, gamma, beta, w;
};

/// No operand of relu is near zero, lest rounding turn whole gradients on and off.
inline ConvNormLeaves conv_norm_leaves(const ConvNormCase& c, Device device) {
  const Shape channels{c.x[3]};
  ConvNormLeaves leaves{on(device, numbers(c.x, 0, 0, 1, 0.5), c.x, DType::f16),
                        on(device, numbers(channels, 1, 1, 0, 0.25), channels, DType::f32),
                        on(device, numbers(channels, 2, 0, 0, 0.25), channels, DType::f32),
                        on(device, numbers(c.w, 3, 0, 0, 0.5), c.w, DType::f16)};
  for (Tensor* leaf : {&leaves.x, &leaves.gamma, &leaves.beta, &leaves.w})
    leaf->set_requires_grad();
  return leaves;
}

inline Results run_conv_norm(const ConvNormCase& c, Device device, int passes = 1) {
  const Shape channels{c.x[3]};
  const auto& [x, gamma, beta, w] = conv_norm_leaves(c, device);
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

inline bool is_fused(const ConvNormCase& c, const Tensor& sums = {}) {
  BatchNormState state;
  state.sums = sums;
  const Shape channels{c.x[3]};
  const TensorOptions f16{.dtype = DType::f16, .device = gpu}, f32{.device = gpu};
  return batch_norm_conv2d_is_fused(
      zeros(c.x, f16),
      {.gamma = ones(channels, f32),
       .beta = zeros(channels, f32),
       .state = state,
       .options = {.training = true, .activation = {Activation::relu}}},
      zeros(c.w, f16), c.options);
}

class CudaConvNorm : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    use(ConvNormFusion::always, 0);
    if (!is_fused(conv_norm_cases()[1])) GTEST_SKIP() << "skipped: cuDNN fuses nothing on this GPU";
  }
  void use(ConvNormFusion fusion, double search_seconds, bool deterministic = false) {
    CudaOptions options = exact_options();
    options.conv_norm_fusion = fusion;
    options.search_seconds = search_seconds;
    options.deterministic = deterministic;
    forget_choices(options);
  }
  // Operands have f16's rounding, and the normalised ones once more.
  void expect_agreement(const char* what) {
    for (const ConvNormCase& c : conv_norm_cases()) {
      expect_close(what, c, run_conv_norm(c, gpu), run_conv_norm(c, reference_device));
    }
  }
  static void expect_close(const char* what, const ConvNormCase& c, const Results& got,
                           const Results& expected) {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(close(got[i].second, expected[i].second, 0.01, 1e-3))
          << what << ": " << expected[i].first << " of x " << c.x.str() << " w " << c.w.str();
    }
  }
};

}  // namespace whisker::test
