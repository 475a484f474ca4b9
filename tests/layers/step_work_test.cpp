// Floors by hand: which passes a step has, what each computes and moves, and how they add up.
#include "layers/analysis/step_work.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;

// x (4,8,8,3), convolution with 16 filters of 3x3 to (4,6,6,16), pooled to (4,3,3,16), dense 5.
Model small_model() {
  return build_model(
      YamlNode::parse("layers: [conv2d: {filters: 16, kernel: 3, activation: relu}, max_pool2d: 2, "
                      "flatten, dense: 5]",
                      "m.yaml"),
      {.input = {4, 8, 8, 3}, .classes = 5});
}

std::vector<std::string> names(const StepWork& work) {
  std::vector<std::string> all;
  for (const PassWork& pass : work.passes) all.push_back(pass.what);
  return all;
}

TEST(StepWork, PassesAreThoseThatGradientsNeed) {
  const StepWork inference = step_work(small_model(), {.inference = true});
  EXPECT_THAT(names(inference), ElementsAre("conv2d", "dense"));
  const StepWork training = step_work(small_model(), {.moments = 2});
  EXPECT_THAT(names(training),
              ElementsAre("conv2d", "conv2d weight gradient", "dense", "dense input gradient",
                          "dense weight gradient", "update"));
}

TEST(StepWork, CountsWhatAPassMustReadAndWrite) {
  const StepWork work = step_work(small_model(), {.moments = 2});
  const double x = 4 * 8 * 8 * 3, y = 4 * 3 * 3 * 16, w = 16 * 27 + 16, z = 4 * 5;
  const double dense = 144 * 5 + 5;
  ASSERT_EQ(work.passes.size(), 6u);
  EXPECT_DOUBLE_EQ(work.passes[0].operations, 2.0 * 4 * 6 * 6 * 16 * 27);
  EXPECT_DOUBLE_EQ(work.passes[0].bytes, 4 * (x + w + y));
  EXPECT_DOUBLE_EQ(work.passes[1].operations, work.passes[0].operations);
  EXPECT_DOUBLE_EQ(work.passes[1].bytes, 4 * (2 * y + x + w));  // dy and y
  EXPECT_DOUBLE_EQ(work.passes[2].bytes, 4 * (y + dense + z));
  EXPECT_DOUBLE_EQ(work.passes[3].bytes, 4 * (z + dense + y));
  EXPECT_DOUBLE_EQ(work.passes[4].bytes, 4 * (z + y + dense));
  EXPECT_DOUBLE_EQ(work.passes[5].bytes, 4 * 7 * (w + dense));  // 3 read and written, 1 read
}

TEST(StepWork, CopiesOf16BitsHalveWhatLayersMoveButNotTheUpdate) {
  const StepWork wide = step_work(small_model(), {.moments = 2});
  const StepWork narrow =
      step_work(small_model(), {.types = {.compute = DType::bf16}, .moments = 2});
  for (size_t i = 0; i + 1 < wide.passes.size(); ++i) {
    EXPECT_DOUBLE_EQ(narrow.passes[i].bytes, wide.passes[i].bytes / 2) << wide.passes[i].what;
  }
  // Masters and two moments twice, gradients once in half the bytes, copies written.
  EXPECT_DOUBLE_EQ(narrow.passes.back().bytes, wide.passes.back().bytes / 28 * (24 + 2 + 2));
}

TEST(StepWork, FrozenLayersHaveNoGradients) {
  const Model model = small_model();
  model.net->freeze(std::vector<std::string>{"conv2d"});
  EXPECT_THAT(names(step_work(model, {.moments = 2})),
              ElementsAre("conv2d", "dense", "dense weight gradient", "update"));
}

// The input of the first layer wants no gradient, the steps and the second layer's input do.
TEST(StepWork, GradientsGoThroughTimeWhateverTheInputWants) {
  const Model model =
      build_model(YamlNode::parse("layers: [lstm: {units: 8, layers: 2}, dense: 5]", "m.yaml"),
                  {.input = {6, 3, 4}, .batch_axis = 1, .classes = 5});
  const StepWork work = step_work(model, {.moments = 2});
  EXPECT_THAT(names(work),
              ElementsAre("lstm", "lstm gradient through time", "lstm weight gradient", "dense",
                          "dense input gradient", "dense weight gradient", "update"));
  const double state = 2.0 * 6 * 3 * 32 * 8;  // a product with 8 units at every step
  EXPECT_DOUBLE_EQ(work.passes[0].operations, 3.5 * state);
  EXPECT_DOUBLE_EQ(work.passes[1].operations, 3 * state);
  EXPECT_DOUBLE_EQ(work.passes[2].operations, 3.5 * state);
}

TEST(StepWork, EachPassTakesTheLongerOfItsTwoTimes) {
  const StepWork work{.passes = {{"a", 2e9, 1e6}, {"b", 1e9, 8e6}}};
  const Ceilings ceilings{.tflops = 1, .gb_per_s = 2};  // 2 and 1 ms, 0.5 and 4 ms
  EXPECT_DOUBLE_EQ(work.floor_ms(ceilings), 2 + 4);
  EXPECT_DOUBLE_EQ(work.operations(), 3e9);
  EXPECT_DOUBLE_EQ(work.bytes(), 9e6);
}

}  // namespace
}  // namespace whisker
