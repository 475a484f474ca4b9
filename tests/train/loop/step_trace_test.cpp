// Traces of training steps: the ranges nest and are the layers', and results stay what they are.
// Nothing here depends on how fast a machine is.
#include "train/loop/step_trace.h"

#include "core/io/file.h"
#include "core/io/json.h"
#include "tests/support/tiny_training.h"

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

}  // namespace
}  // namespace whisker::test
