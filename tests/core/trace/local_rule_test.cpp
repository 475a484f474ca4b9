// Formulas with numbers agree with what the operators computed, for every row of the operator
// table; an example that does not agree is not shown, which the tests here would see.
#include "core/trace/local_rule.h"

#include "core/tensor/philox.h"
#include "core/trace/op_links.h"
#include "core/trace/operator_table.h"
#include "core/trace/rule_table.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/tape_support.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

Recording recorded_row(const OperatorRow& row) {
  Arguments arguments(stream_of(row.name));
  {
    const NoGrad off_tape;
    row.call(arguments);  // makes the operands
  }
  for (const auto& [name, tensor] : arguments.operands()) tensor.set_requires_grad(name);
  arguments.restart();
  StepRecorder recorder({.values = true});
  const Tensor y = row.call(arguments);
  if (!y.requires_grad()) return {};
  backward(sum(mul(y, rand_uniform(y.shape(), 0.5, 1.5, 7, 1, y.options()))));
  return recorder.recording();
}

TEST(LocalRule, EveryExampleAgreesWithItsOperator) {
  int forward = 0, backward = 0;
  for (const OperatorRow& row : operator_table()) {
    const Recording recording = recorded_row(row);
    for (const TapeEntry& entry : recording.entries) {
      const OpRule* const rule = find_rule(entry.name);
      if (entry.kind != TapeKind::op || !rule) continue;
      const std::string where = std::string(row.name) + ": " + entry.name;
      if (!rule->forward_term.empty()) {
        EXPECT_NE(forward_example(recording, entry), "") << where;
        ++forward;
      }
      for (const TapeInput& input : entry.inputs) {
        const TapeEntry& source = recording.entries[input.entry];
        const bool has_term =
            input.position < 4 &&
            (!rule->backward_term[input.position].empty() ||
             (!rule->forward_term.empty() && !rule->backward[input.position].empty()));
        if (!has_term || source.kind == TapeKind::constant || !source.recorded) continue;
        EXPECT_NE(backward_rule(recording, entry, input.position), "") << where;
        EXPECT_NE(backward_example(recording, entry, input.position), "")
            << where << ", operand " << input.position;
        ++backward;
      }
    }
  }
  EXPECT_GE(forward, 60);
  EXPECT_GE(backward, 90);
}

TEST(LocalRule, PutsNumbersIn) {
  const Tensor x = leaf({1, -2}, {1, 2});
  const Tensor w = leaf({3, 0.5, -1, 4}, {2, 2});
  StepRecorder recorder({.values = true});
  backward(sum(relu(matmul(x, w))));
  const Recording recording = recorder.recording();
  const auto entry = [&](const std::string& name) -> const TapeEntry& {
    return *std::find_if(recording.entries.begin(), recording.entries.end(),
                         [&](const TapeEntry& one) { return one.name == name; });
  };
  EXPECT_EQ(forward_rule(entry("matmul")), "y = a @ b");
  EXPECT_EQ(forward_example(recording, entry("matmul")), "y[0,1] = 1 * 0.5 + (-2) * 4 = -7.5");
  EXPECT_EQ(forward_example(recording, entry("relu")), "y[0,0] = max(5, 0) = 5");
  EXPECT_EQ(backward_rule(recording, entry("relu"), 0), "dx = dy * (y > 0)");
  EXPECT_EQ(backward_example(recording, entry("relu"), 0), "dx[0,0] = 1 * (5 > 0) = 1");
  EXPECT_EQ(backward_example(recording, entry("matmul"), 1), "db[1,0] = 1 * (-2) = -2");
  EXPECT_EQ(backward_example(recording, entry("sum"), 0), "dx[0,0] = 1");
}

TEST(LocalRule, AFusedLeakyReluHasTheSlopeItWasGiven) {
  const ActivationSpec leaky{.kind = Activation::leaky_relu, .slope = 0.25f};
  const Tensor x = leaf({1, -2}, {1, 2}), w = leaf({3, 0.5, -1, 4}, {2, 2});
  const Tensor image = leaf({1, -2, 3, -4}, {1, 2, 2, 1}), filter = leaf({-1}, {1, 1, 1, 1});
  StepRecorder recorder({.values = true});
  backward(sum(linear(x, w, {}, leaky)) + sum(conv2d(image, filter, {}, {.activation = leaky})));
  const Recording recording = recorder.recording();
  int fused = 0;
  for (const TapeEntry& entry : recording.entries) {
    if (entry.name != "linear" && entry.name != "conv2d") continue;
    EXPECT_THAT(entry.attribute("slope"), testing::ElementsAre(0.25)) << entry.attributes;
    EXPECT_THAT(backward_rule(recording, entry, 1),
                testing::EndsWith("dz = dy * ((y > 0) + slope * (y <= 0))"));
    EXPECT_NE(backward_example(recording, entry, 0), "") << entry.name;
    EXPECT_NE(backward_example(recording, entry, 1), "") << entry.name;
    ++fused;
  }
  EXPECT_EQ(fused, 2);
}

TEST(LocalRule, ANormHasItsActivationInItsRules) {
  for (const Activation kind : {Activation::silu, Activation::hard_swish, Activation::relu6}) {
    const Tensor x = leaf({1, -2, 3, 0.5, -4, 2}, {3, 2});
    const Tensor gamma = leaf({1.5, 0.5}), beta = leaf({0.25, -1});
    const auto statistic = [] { return zeros({2}, exact); };
    StepRecorder recorder({.values = true});
    backward(sum(pow(batch_norm(x, gamma, beta,
                                {.running_mean = statistic(),
                                 .running_var = statistic(),
                                 .pending_mean = statistic(),
                                 .pending_var = statistic()},
                                {.training = true, .activation = {.kind = kind}}),
                     2)));
    const Recording recording = recorder.recording();
    const auto norm =
        std::find_if(recording.entries.begin(), recording.entries.end(),
                     [](const TapeEntry& entry) { return entry.name == "batch_norm"; });
    ASSERT_NE(norm, recording.entries.end());
    EXPECT_EQ(operator_parts(*norm), fmt::format("batch_norm + {}", name_of(kind)));
    EXPECT_THAT(backward_rule(recording, *norm, 2), testing::HasSubstr(", dz = dy * "));
    for (size_t operand = 0; operand < 3; ++operand) {
      EXPECT_NE(backward_example(recording, *norm, operand), "") << name_of(kind) << operand;
    }
  }
}

// Attributes and shapes may come from a file.
TEST(LocalRule, ATransposeWithAnAxisTwiceHasNoTerms) {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  StepRecorder recorder({.values = true});
  backward(sum(transpose(x, {1, 0})));
  Recording recording = recorder.recording();
  for (TapeEntry& entry : recording.entries) {
    if (entry.name != "transpose") continue;
    EXPECT_TRUE(for_each_link(recording, entry, [](const OpLink&) {}));
    EXPECT_NE(backward_example(recording, entry, 0), "");
    entry.attributes = "order 0 -2";
    EXPECT_FALSE(for_each_link(recording, entry, [](const OpLink&) {}));
    EXPECT_EQ(backward_example(recording, entry, 0), "");
    return;
  }
  FAIL() << "no transpose";
}

TEST(LocalRule, AWindowFarLargerThanItsImageTakesNoTime) {
  const Tensor x = leaf({5}, {1, 1, 1, 1});
  StepRecorder recorder({.values = true});
  backward(sum(max_pool2d(x, {.kernel = 1, .stride = 1})));
  Recording recording = recorder.recording();
  for (TapeEntry& entry : recording.entries) {
    if (entry.name != "max_pool2d") continue;
    entry.attributes = "kernel 4096 4096, stride 1 1, padding 32 32";
    entry.outputs[0].shape = {1, 64, 64, 1};
    int64_t links = 0;
    EXPECT_TRUE(for_each_link(recording, entry, [&](const OpLink& link) {
      EXPECT_EQ(link.operands[0], 0);
      ++links;
    }));
    EXPECT_EQ(links, 33 * 33);  // the windows that begin at the pixel or before it
    return;
  }
  FAIL() << "no max_pool2d";
}

TEST(LocalRule, FusedOperatorsShowTheirParts) {
  const Tensor x = rand_normal({1, 4, 4, 1}, 0, 1, 3, 1), w = rand_normal({2, 3, 3, 1}, 0, 1, 3, 2);
  w.set_requires_grad("w");
  StepRecorder recorder({.values = true});
  backward(sum(conv2d(
      x, w, {},
      {.padding = 1, .activation = {.kind = Activation::relu}, .max_pool = Pool2dOptions{}})));
  const Recording recording = recorder.recording();
  std::string parts;
  for (const TapeEntry& entry : recording.entries) {
    if (entry.name == "conv2d_max_pool2d") parts = operator_parts(entry);
  }
  EXPECT_EQ(parts, "conv2d + relu + max_pool2d");
}

}  // namespace
}  // namespace whisker
