// The figures of `whisker bench` hang together on each device. Nothing here depends on how fast a
// machine is.
#include "train/planning/benchmark.h"

#include "tests/support/training_on.h"
#include "train/experiment.h"

#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using BenchmarkOn = TrainingOn;
INSTANTIATE_TEST_SUITE_P(, BenchmarkOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

std::set<std::string> layers_with_parameters(const Config& config) {
  const Experiment experiment(config);
  std::set<std::string> layers;
  for (const auto& parameter : experiment.arena->parameters()) {
    layers.insert(parameter->name().substr(0, parameter->name().rfind('.')));
  }
  return layers;
}

TEST_P(BenchmarkOn, TrainingFiguresHangTogether) {
  for (const DType dtype : test_dtypes(GetParam())) {
    SCOPED_TRACE(name_of(dtype));
    const Config trained = config({fmt::format("precision={}", name_of(dtype))});
    const BenchmarkResult result = run_benchmark(trained, {.steps = 5});
    EXPECT_EQ(result.device, GetParam().str());
    EXPECT_EQ(result.precision, name_of(dtype));
    EXPECT_EQ(result.batch, 8);
    EXPECT_EQ(result.captured, on_gpu());
    EXPECT_EQ(result.milliseconds.size(), 5u);
    EXPECT_GT(result.milliseconds.front(), 0);
    EXPECT_LE(result.quantile(0), result.quantile(0.5));
    EXPECT_LE(result.quantile(0.5), result.quantile(1));
    EXPECT_DOUBLE_EQ(result.examples_per_s(), 8000 / result.quantile(0.5));
    EXPECT_GT(result.peak_bytes, 0);
    EXPECT_GE(result.reserved_bytes, result.peak_bytes);
    EXPECT_GT(result.tflops(), 0);
    EXPECT_GT(result.gb_per_s(), 0);
    std::map<std::string, LayerTimes> times;
    for (const LayerTimes& one : result.layers) times[one.layer] = one;
    const std::set<std::string> layers = layers_with_parameters(trained);
    EXPECT_EQ(layers, (std::set<std::string>{"batch_norm", "conv2d", "conv2d_1", "dense"}));
    for (const std::string& layer : layers) {
      EXPECT_GT(times[layer].forward_ms, 0) << layer;
      EXPECT_GT(times[layer].backward_ms, 0) << layer;
    }
  }
  if (!on_gpu()) {
    EXPECT_EQ(run_benchmark(config(), {.steps = 1}).precision, "f32");
  }
}

// Operations of products, by hand: two 3x3 convolutions and a dense layer.
TEST_P(BenchmarkOn, OperationsAreThoseOfTheProducts) {
  const double first = 14 * 14 * 8 * 27.0, second = 5 * 5 * 8 * 72.0, dense = 2 * 8.0;
  const BenchmarkResult forward = run_benchmark(config(), {.inference = true, .steps = 2});
  EXPECT_DOUBLE_EQ(forward.work.operations(), 8 * 2 * (first + second + dense));
  EXPECT_TRUE(forward.layers.empty());
  const BenchmarkResult training = run_benchmark(config(), {.steps = 2, .layers = false});
  // The images want no gradient.
  EXPECT_DOUBLE_EQ(training.work.operations(), 8 * 2 * (2 * first + 3 * second + 3 * dense));
  EXPECT_TRUE(training.layers.empty());
  EXPECT_GT(training.work.bytes(), forward.work.bytes());
  const Ceilings ceilings{.tflops = 1e-3, .gb_per_s = 1e6};  // operations decide
  EXPECT_GT(training.work.floor_ms(ceilings), training.work.operations() / 1e6);
}

TEST_P(BenchmarkOn, StepsAreEagerWhereGraphsAreNotWanted) {
  const BenchmarkResult result = run_benchmark(config({"runtime.graph=false"}), {.steps = 2});
  EXPECT_FALSE(result.captured);
  EXPECT_EQ(result.milliseconds.size(), 2u);
}

TEST_P(BenchmarkOn, LatenciesAreInOrder) {
  const BenchmarkResult result = run_benchmark(config(), {.inference = true, .steps = 50});
  EXPECT_TRUE(result.inference);
  EXPECT_EQ(result.captured, on_gpu());
  EXPECT_EQ(result.milliseconds.size(), 50u);
  EXPECT_GT(result.milliseconds.front(), 0);
  EXPECT_LE(result.milliseconds.front(), result.quantile(0.5));
  EXPECT_LE(result.quantile(0.5), result.quantile(0.95));
  EXPECT_LE(result.quantile(0.95), result.quantile(0.99));
  EXPECT_LE(result.quantile(0.99), result.milliseconds.back());
  EXPECT_GT(result.peak_bytes, 0);
  EXPECT_GE(result.reserved_bytes, result.peak_bytes);
}

TEST_P(BenchmarkOn, InferenceIsOfImagesAsLargeAsThoseClassified) {
  const auto work_at = [&](const char* size) {
    return run_benchmark(config({size}), {.inference = true, .steps = 1}).work.operations();
  };
  EXPECT_EQ(work_at("data.train_image_size=12"), work_at("data.image_size=16"));
}

TEST_P(BenchmarkOn, RefusesMoreThanThereIs) {
  EXPECT_THROW(run_benchmark(config({"train.batch_size=64"}), {.steps = 1}), Error);
  EXPECT_THROW(run_benchmark(config(), {.steps = 0}), Error);
}

TEST_P(BenchmarkOn, CeilingsAreMeasured) {
  const Ceilings ceilings = measure_ceilings(config());
  EXPECT_GT(ceilings.tflops, 0);
  EXPECT_GT(ceilings.gb_per_s, 0);
}

// Expected values are numpy.quantile's.
TEST(Benchmark, QuantilesAreLinearBetweenTwoSteps) {
  BenchmarkResult result;
  result.milliseconds = {1, 2, 4, 8};
  const std::pair<double, double> expected[] = {{0, 1},      {0.25, 1.75}, {0.5, 3}, {0.75, 5},
                                                {0.95, 7.4}, {0.99, 7.88}, {1, 8}};
  for (const auto& [share, time] : expected) {
    EXPECT_DOUBLE_EQ(result.quantile(share), time) << share;
  }
  result.milliseconds.resize(50);
  std::iota(result.milliseconds.begin(), result.milliseconds.end(), 1);
  EXPECT_DOUBLE_EQ(result.quantile(0.5), 25.5);
  EXPECT_DOUBLE_EQ(result.quantile(0.95), 47.55);
  EXPECT_DOUBLE_EQ(result.quantile(0.99), 49.51) << "not the slowest";
  result.milliseconds = {5};
  for (const double share : {0.0, 0.5, 0.99, 1.0}) EXPECT_EQ(result.quantile(share), 5) << share;
}

}  // namespace
}  // namespace whisker::test
