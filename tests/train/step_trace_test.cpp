// Traces of training steps: the ranges nest and are the layers', results stay what they are, and
// the benchmark's figures hang together. Nothing here depends on how fast a machine is.
#include "train/step_trace.h"

#include "core/io/file.h"
#include "core/io/json.h"
#include "tests/support/tiny_training.h"
#include "train/benchmark.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string trace_of(TestRun& run) {
  return read_file(run.folder.path() / "trace.json", 1 << 24, ErrorKind::data);
}

TEST(StepTrace, AProfiledRunWritesItsTraceAndGivesTheSameResult) {
  const StripeFolder data;
  TestRun plain(data.config());
  plain.train();
  TestRun profiled(data.config({"train.profile=3"}));
  profiled.train();
  EXPECT_EQ(hash_of(profiled.experiment), hash_of(plain.experiment));
  EXPECT_THAT(profiled.recorder.messages, Contains(HasSubstr("3 steps traced: ")));
  const JsonValue trace = JsonValue::parse(trace_of(profiled), {.name = "trace.json"});
  std::map<std::string, int> counts;
  for (const JsonValue& event : trace.find("traceEvents")->items()) {
    if (event.find("ph")->as_string() != "X") continue;
    ++counts[event.find("cat")->as_string() + " " + event.find("name")->as_string()];
    EXPECT_GE(event.find("dur")->as_double(), 0);
    EXPECT_GE(event.find("ts")->as_double(), 0);
  }
  EXPECT_EQ(counts["step step"], 3);
  EXPECT_EQ(counts["step update"], 3);
  EXPECT_EQ(counts["loader next batch"], 3);
  EXPECT_EQ(counts["forward conv2d"], 3);
  EXPECT_EQ(counts["backward conv2d"], 3);
  EXPECT_EQ(counts["backward cross_entropy"], 3) << "no layer's: by the operator's name";
}

TEST(StepTrace, AShortRunTracesWhatItHas) {
  const StripeFolder data;  // 5 batches an epoch
  TestRun run(data.config({"train.profile=100", "train.epochs=2"}));
  run.train();
  EXPECT_THAT(run.recorder.messages, Contains(HasSubstr("10 steps traced: ")));
}

TEST(StepTrace, RangesNestAndLayersAddUp) {
  StepTrace trace(cpu_device);
  const Tensor w = ones({4, 4}).set_requires_grad();
  {
    const StepTrace::Watch watch(&trace);
    const StepTrace::Range step(&trace, "step", "step");
    Tensor y;
    {
      const TapeScope block("block");
      const TapeScope inner("block.dense");
      y = linear(ones({2, 4}), w, Tensor());
    }
    backward(sum(y));
  }
  EXPECT_EQ(grad_mode.observer, nullptr);
  const std::vector<TraceRange> ranges = trace.ranges();
  ASSERT_GE(ranges.size(), 5u);
  EXPECT_EQ(ranges[0].name, "step");
  EXPECT_EQ(ranges[1].name, "block");
  EXPECT_EQ(ranges[2].name, "block.dense");
  EXPECT_EQ(ranges[2].depth, 2);
  for (const TraceRange& range : ranges) {
    EXPECT_LE(ranges[0].begin_ms, range.begin_ms) << range.name;
    EXPECT_LE(range.begin_ms, range.end_ms) << range.name;
    EXPECT_LE(range.end_ms, ranges[0].end_ms) << range.name;
  }
  const std::vector<LayerTimes> layers = trace.layers();
  ASSERT_EQ(layers.size(), 1u) << "the block has no operators of its own";
  EXPECT_EQ(layers[0].layer, "block.dense");
  EXPECT_GT(layers[0].forward_ms, 0);
  EXPECT_GT(layers[0].backward_ms, 0);
}

TEST(Benchmark, TrainingFiguresHangTogether) {
  const StripeFolder data;
  const BenchmarkResult result = run_benchmark(data.config(), {.steps = 5});
  EXPECT_EQ(result.device, "cpu");
  EXPECT_EQ(result.precision, "f32");
  EXPECT_EQ(result.batch, 8);
  EXPECT_EQ(result.milliseconds.size(), 5u);
  EXPECT_GT(result.milliseconds.front(), 0);
  EXPECT_LE(result.quantile(0), result.quantile(0.5));
  EXPECT_LE(result.quantile(0.5), result.quantile(1));
  EXPECT_DOUBLE_EQ(result.examples_per_s(), 8000 / result.quantile(0.5));
  EXPECT_GT(result.peak_bytes, 0);
  EXPECT_GT(result.tflops(), 0);
  EXPECT_GT(result.gb_per_s(), 0);
  std::set<std::string> layers;
  for (const LayerTimes& times : result.layers) layers.insert(times.layer);
  EXPECT_THAT(layers, testing::IsSupersetOf({"conv2d", "conv2d_1", "dense"}));
}

// Operations of products, by hand: two 3x3 convolutions and a dense layer.
TEST(Benchmark, OperationsAreThoseOfTheProducts) {
  const StripeFolder data;
  const double first = 14 * 14 * 8 * 27.0, second = 5 * 5 * 8 * 72.0, dense = 2 * 8.0;
  const BenchmarkResult forward = run_benchmark(data.config(), {.inference = true, .steps = 2});
  EXPECT_DOUBLE_EQ(forward.work.operations(), 8 * 2 * (first + second + dense));
  EXPECT_TRUE(forward.layers.empty());
  const BenchmarkResult training = run_benchmark(data.config(), {.steps = 2, .layers = false});
  // The pictures want no gradient.
  EXPECT_DOUBLE_EQ(training.work.operations(), 8 * 2 * (2 * first + 3 * second + 3 * dense));
  EXPECT_GT(training.work.bytes(), forward.work.bytes());
  const Ceilings ceilings{.tflops = 1e-3, .gb_per_s = 1e6};  // operations decide
  EXPECT_GT(training.work.floor_ms(ceilings), training.work.operations() / 1e6);
}

TEST(Benchmark, InferenceIsOfPicturesAsLargeAsThoseClassified) {
  const StripeFolder data;
  const auto work_at = [&](const char* size) {
    return run_benchmark(data.config({size}), {.inference = true, .steps = 1}).work.operations();
  };
  EXPECT_EQ(work_at("data.train_image_size=12"), work_at("data.image_size=16"));
}

TEST(Benchmark, RefusesMoreThanThereIs) {
  const StripeFolder data;
  EXPECT_THROW(run_benchmark(data.config({"train.batch_size=64"}), {.steps = 1}), Error);
  EXPECT_THROW(run_benchmark(data.config(), {.steps = 0}), Error);
}

TEST(Benchmark, CeilingsAreMeasured) {
  const StripeFolder data;
  const Ceilings ceilings = measure_ceilings(data.config());
  EXPECT_GT(ceilings.tflops, 0);
  EXPECT_GT(ceilings.gb_per_s, 0);
}

}  // namespace
}  // namespace whisker::test
