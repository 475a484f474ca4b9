// Ten training steps of a whole run, images and all, end with the weights of the CPU's in f32, in
// every precision of every device.
//
// In f16 the network has no relu and no max-pooling. Where two of their candidates are close,
// rounding decides which one gets the whole gradient, so that errors are of the size of gradients,
// as rare as close candidates, and follow no bound from the type's rounding: ten f16 steps on an
// H200 were off by 0.0002 to 0.0074 of the way over eight seeds with them, and by 0.00004 to
// 0.00009 without. In f32 they are rare enough to be none here, and bf16's bound is wide enough.
#include "core/tensor/dtype.h"
#include "tests/support/devices.h"
#include "tests/support/overrides.h"
#include "tests/support/tiny_training.h"
#include "tests/support/tolerance.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// All parameters and statistics before the first step, and after the last.
struct Weights {
  std::vector<double> before, after;
};

constexpr const char* smooth_layers =
    "model.layers=[{conv2d: {filters: 8, kernel: 3}}, {batch_norm: {activation: tanh}}, "
    "{dropout: 0.1}, {avg_pool2d: 2}, {conv2d: {filters: 8, kernel: 3, activation: tanh}}, "
    "global_avg_pool2d]";

// Momentum rather than Adam, which makes whole steps of gradients that are rounding errors.
Weights ten_steps(const StripeFolder& data, Device device, DType dtype,
                  const std::vector<std::string>& network) {
  TestRun run(
      data.config(joined({"device=" + device.str(), fmt::format("precision={}", name_of(dtype)),
                          "deterministic=true", "data.gpu_decode=0", "optimizer.kind=sgd",
                          "optimizer.momentum=0.9", "optimizer.lr=0.02", "train.epochs=2"},
                         network)));
  Weights weights{.before = weights_of(run.experiment), .after = {}};
  EXPECT_EQ(run.train().steps, 10);
  weights.after = weights_of(run.experiment);
  return weights;
}

// Relative to the way that the weights went. Values are rounded forwards and backwards, sums as
// tolerance() says (the longest are the statistics', over 8 images of 14 x 14), and the errors of
// steps add up as those of a sum do.
double allowed(DType dtype) {
  return std::sqrt(10) * (2 * unit_roundoff(dtype) + tolerance(DType::f32, 8 * 14 * 14));
}

using TenStepsOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, TenStepsOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

class TenSteps {
 public:
  explicit TenSteps(std::vector<std::string> network)
      : network_(std::move(network)), want_(ten_steps(data_, cpu_device, DType::f32, network_)) {}

  /// They end no further off than rounding to `dtype` takes them.
  void follow(Device device, DType dtype) const {
    const Weights got = ten_steps(data_, device, dtype, network_);
    EXPECT_EQ(got.before, want_.before);
    const double error = distance(got.after, want_.after) / distance(want_.before, want_.after);
    fmt::print("{} {}: off by {:.2g} of the way, allowed {:.2g}\n", device.str(), name_of(dtype),
               error, allowed(dtype));
    EXPECT_LT(error, allowed(dtype)) << name_of(dtype);
    if (dtype != DType::f32) {
      EXPECT_GT(error, unit_roundoff(dtype) / 16)
          << "control: the steps were not taken in " << name_of(dtype);
    }
  }

 private:
  StripeFolder data_;
  std::vector<std::string> network_;
  Weights want_;
};

TEST_P(TenStepsOn, FollowThoseOfTheCpu) {
  const TenSteps steps({});
  for (const DType dtype : test_dtypes(GetParam())) {
    if (dtype != DType::f16) steps.follow(GetParam(), dtype);
  }
}

TEST_P(TenStepsOn, FollowThoseOfTheCpuWithoutBends) {
  const TenSteps steps({smooth_layers});
  for (const DType dtype : test_dtypes(GetParam())) steps.follow(GetParam(), dtype);
}

}  // namespace
}  // namespace whisker::test
