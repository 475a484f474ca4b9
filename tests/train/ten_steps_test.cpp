// Ten training steps of a whole run, pictures and all, end with the weights of the CPU's in f32, in
// every precision of every device.
#include "core/dtype.h"
#include "support/devices.h"
#include "support/tiny_training.h"
#include "support/tolerance.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// All parameters and statistics before the first step, and after the last.
struct Weights {
  std::vector<double> before, after;
};

std::vector<double> weights_of(const Experiment& experiment) {
  std::vector<double> all;
  for (const auto& parameter : experiment.arena->parameters()) {
    for (const float value : experiment.arena->read(*parameter)) all.push_back(value);
  }
  return all;
}

// Momentum rather than Adam, which makes whole steps of gradients that are rounding errors.
Weights ten_steps(const StripeFolder& data, Device device, DType dtype) {
  TestRun run(data.config({"device=" + device.str(), fmt::format("precision={}", name_of(dtype)),
                           "deterministic=true", "data.gpu_decode=0", "optimizer.kind=sgd",
                           "optimizer.momentum=0.9", "optimizer.lr=0.02", "train.epochs=2"}));
  Weights weights{.before = weights_of(run.experiment), .after = {}};
  EXPECT_EQ(run.train().steps, 10);
  weights.after = weights_of(run.experiment);
  return weights;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Relative to the way that the weights went. Values are rounded forwards and backwards, sums as
// tolerance() says (the longest are the statistics', over 8 pictures of 14 x 14), and the errors of
// steps add up as those of a sum do.
double allowed(DType dtype) {
  return std::sqrt(10) * (2 * unit_roundoff(dtype) + tolerance(DType::f32, 8 * 14 * 14));
}

using TenStepsOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, TenStepsOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

TEST_P(TenStepsOn, FollowThoseOfTheCpu) {
  const StripeFolder data;
  const Weights want = ten_steps(data, cpu_device, DType::f32);
  const double way = distance(want.before, want.after);
  for (const DType dtype : test_dtypes(GetParam())) {
    const Weights got = ten_steps(data, GetParam(), dtype);
    EXPECT_EQ(got.before, want.before);
    const double error = distance(got.after, want.after) / way;
    fmt::print("{} {}: off by {:.2g} of the way, allowed {:.2g}\n", GetParam().str(),
               name_of(dtype), error, allowed(dtype));
    EXPECT_LT(error, allowed(dtype)) << name_of(dtype);
    if (dtype != DType::f32) {
      EXPECT_GT(error, allowed(DType::f32)) << "control: the steps were not taken in another type";
    }
  }
}

}  // namespace
}  // namespace whisker::test
