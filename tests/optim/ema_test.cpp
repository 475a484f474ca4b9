#include "optim/ema.h"

#include "optim/optimizer.h"
#include "tests/optim/traces.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(WeightAverage, FollowsPyTorch) {
  const JsonValue& ema = traces::file().at("ema");
  traces::Model model(reference_device, DType::f64);
  Optimizer optimizer(model.arena, {.kind = OptimizerKind::sgd, .momentum = 0.9});
  WeightAverage average(model.arena, ema.at("decay").as_double(), /*warmup=*/false);
  for (int t = 1; t <= traces::step_count; ++t) {
    model.set_gradient(t);
    optimizer.step(0.05);
    average.update();
    const AverageScope scope(&average);
    const auto expected = traces::numbers_of(ema.at("trace").items()[static_cast<size_t>(t - 1)]);
    const auto got = model.values();
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 2e-9 * (1 + std::abs(expected[i]))) << "step " << t;
    }
  }
}

// Layers see the average while a scope lives, also where they read a bf16 copy.
TEST(WeightAverage, ComputeViewsFollowTheSwap) {
  auto parameter = std::make_shared<Parameter>(Shape{3}, ParameterRole::weight, nullptr);
  ParameterArena arena({parameter}, cpu_device, 1, {.compute = DType::bf16});
  WeightAverage average(arena, 0.5, /*warmup=*/false);
  arena.write(*parameter, std::vector<float>{2, 4, 0.1f});
  average.update();
  const auto rounded = [](float v) { return static_cast<double>(float(bf16_t(v))); };
  {
    const AverageScope scope(&average);
    EXPECT_EQ(parameter->value().to_vector(), (std::vector<double>{1, 2, rounded(0.05f)}));
  }
  EXPECT_EQ(parameter->value().to_vector(), (std::vector<double>{2, 4, rounded(0.1f)}));
  EXPECT_EQ(average.updates(), 1);
}

}  // namespace
}  // namespace whisker
