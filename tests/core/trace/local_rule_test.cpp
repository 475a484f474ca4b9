// Formulas with numbers agree with what the operators computed, for every row of the operator
// table; an example that does not agree is not shown, which the tests here would see.
#include "core/trace/local_rule.h"

#include "core/backend/registry.h"
#include "core/ops/recurrent.h"
#include "core/tensor/philox.h"
#include "core/trace/op_links.h"
#include "core/trace/operator_table.h"
#include "core/trace/rule_table.h"
#include "core/trace/step_recorder.h"
#include "tests/core/trace/recording_support.h"
#include "tests/core/trace/tape_support.h"
#include "tests/support/devices.h"
#include "tests/support/recording_backend.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

// The operands of a row on one device, in a type that it computes in.
class ArgumentsOn final : public Arguments {
 public:
  ArgumentsOn(uint64_t seed, Device device)
      : Arguments(seed),
        device_(device),
        dtype_(device == reference_device ? DType::f64 : DType::f32) {}

  Tensor operand(const char* name, const Shape& shape, double low, double high) override {
    const Tensor plain = Arguments::operand(name, shape, low, high);
    moved_.push_back(plain.to(dtype_).to(device_).set_requires_grad(name));
    return moved_.back();
  }
  Tensor constant(const Shape& shape, double low, double high) override {
    return Arguments::constant(shape, low, high).to(dtype_).to(device_);
  }
  Tensor index(const Shape& shape, int64_t extent) override {
    return Arguments::index(shape, extent).to(device_);
  }
  // Without random numbers inside of a fused operator, which are not recorded.
  double real(double usual) override { return usual == 0.3 ? 0 : usual; }

 private:
  Device device_;
  DType dtype_;
  std::vector<Tensor> moved_;
};

Recording recorded_row(const OperatorRow& row, Device device,
                       int64_t large_above = most_recorded_values) {
  ArgumentsOn arguments(stream_of(row.name), device);
  StepRecorder recorder({.values = true, .large_above = large_above});
  const Tensor y = row.call(arguments);
  if (!y.requires_grad()) return {};
  backward(sum(mul(y, rand_uniform(y.shape(), 0.5, 1.5, 7, 1, y.options()))));
  return recorder.recording();
}

// Calls `forward` for each operator of the table's rows on one device, and `backward` for each
// operand of it that wants a gradient. On a GPU more of the rows are fused.
template <class Forward, class Backward>
void each_operator(Device device, int64_t large_above, Forward forward, Backward backward) {
  int operators = 0, operands = 0;
  for (const OperatorRow& row : operator_table()) {
    const Recording recording = recorded_row(row, device, large_above);
    for (const TapeEntry& entry : recording.entries) {
      if (entry.kind != TapeKind::op) continue;
      SCOPED_TRACE(fmt::format("{} on {}: {}", row.name, device, entry.name));
      forward(recording, entry);
      ++operators;
      for (const TapeInput& input : entry.inputs) {
        const TapeEntry& source = recording.entries[input.entry];
        if (source.kind == TapeKind::constant || !source.recorded) continue;
        backward(recording, entry, input);
        ++operands;
      }
    }
  }
  EXPECT_GE(operators, 200);
  EXPECT_GE(operands, 260);
}

TEST(LocalRule, EveryExampleAgreesWithItsOperator) {
  for (const Device device : test::test_devices()) {
    each_operator(
        device, most_recorded_values,
        [](const Recording& recording, const TapeEntry& entry) {
          EXPECT_NE(forward_rule(entry), "");
          EXPECT_NE(forward_example(recording, entry), "");
        },
        [](const Recording& recording, const TapeEntry& entry, const TapeInput& input) {
          EXPECT_NE(backward_rule(recording, entry, input.position), "");
          EXPECT_NE(backward_example(recording, entry, input.position), "")
              << "operand " << input.position;
        });
  }
}

// Every tensor counts as too large to keep its values.
TEST(LocalRule, ExamplesThatAreKeptWhileTheStepRunsAgree) {
  for (const Device device : test::test_devices()) {
    each_operator(
        device, 0,
        [](const Recording&, const TapeEntry& entry) {
          EXPECT_THAT(entry.example, testing::StartsWith("y"));
        },
        [](const Recording&, const TapeEntry&, const TapeInput& input) {
          EXPECT_THAT(input.example, testing::StartsWith("d"));
        });
  }
}

// As a GPU records them, from what the operators that they stand for gave.
TEST(LocalRule, FusedNormsAreTakenApart) {
  const auto norm = [](const char* rest) { return fmt::format("epsilon 1e-05, {}", rest); };
  const std::tuple<std::string, std::string, std::vector<std::string>> rows[] = {
      {"add_batch_norms",
       norm("added_epsilon 1e-05"),
       {"x", "gamma", "beta", "added", "added_gamma", "added_beta"}},
      {"batch_norm_max_pool2d",
       norm("training, kernel 3 3, stride 2 2, padding 1 1"),
       {"x", "gamma", "beta"}},
      {"batch_norm_conv2d",
       norm("training, relu, kernel 1 1, stride 1 1, padding 0 0, dilation 1 1, groups 1"),
       {"x", "gamma", "beta", "w"}}};
  for (const auto& [name, attributes, operands] : rows) {
    const OperatorRow& row = *std::ranges::find(
        operator_table(), name, [](const OperatorRow& one) { return std::string(one.name); });
    const Recording parts = recorded_row(row, reference_device);
    Recording fused;
    TapeEntry entry{.name = name, .attributes = attributes};
    for (const std::string& operand : operands) {
      fused.entries.push_back(entry_named(parts, operand));
      const size_t at = entry.inputs.size();
      entry.inputs.push_back({.entry = at, .position = at});
      entry.given.push_back({.input = at, .sum = fused.entries[at].outputs[0].gradient});
    }
    entry.outputs = parts.entries[entry_named(parts, "mul").inputs[0].entry].outputs;
    fused.entries.push_back(entry);
    EXPECT_NE(forward_rule(entry), "") << name;
    EXPECT_NE(forward_example(fused, entry), "") << name;
    for (size_t i = 0; i < operands.size(); ++i) {
      EXPECT_NE(backward_rule(fused, entry, i), "") << name << ": " << operands[i];
      EXPECT_NE(backward_example(fused, entry, i), "") << name << ": " << operands[i];
    }
    entry.attributes = norm("training, kernel 4096 4096, stride 1 1, padding 4096 4096");
    entry.outputs[0].value.all[0] += 1;  // nothing is shown of what does not agree
    EXPECT_EQ(forward_example(fused, entry), "") << name;
  }
}

// Its gradient is multiplied by what another operator, behind it, was given.
TEST(LocalRule, ANormThatIsScaledBehindItIsTakenApart) {
  test::RecordingBackend backend(backend_of(reference_device));
  const ReferenceStandIn stand_in(backend);  // fuses as a GPU does
  const OperatorRow& row =
      *std::ranges::find(operator_table(), std::string_view("batch_norm_excite"),
                         [](const OperatorRow& one) { return std::string_view(one.name); });
  for (const int64_t large_above : {most_recorded_values, int64_t{0}}) {
    const Recording recording = recorded_row(row, reference_device, large_above);
    const TapeEntry& norm = entry_named(recording, "batch_norm_squeeze");
    EXPECT_THAT(forward_example(recording, norm), testing::StartsWith("y[")) << large_above;
    for (const char* name : {"dx[", "dgamma[", "dbeta["}) {
      const size_t position = name[1] == 'x' ? 0 : name[1] == 'g' ? 1 : 2;
      EXPECT_THAT(backward_example(recording, norm, position), testing::StartsWith(name))
          << large_above;
    }
  }
}

TEST(LocalRule, PutsNumbersIn) {
  const Tensor x = leaf({1, -2}, {1, 2});
  const Tensor w = leaf({3, 0.5, -1, 4}, {2, 2});
  const Recording recording = step_of([&] { return sum(relu(matmul(x, w))); });
  const auto entry = [&](const char* name) -> const TapeEntry& {
    return entry_named(recording, name);
  };
  EXPECT_EQ(forward_rule(entry("matmul")), "y = a @ b");
  EXPECT_EQ(forward_example(recording, entry("matmul")), "y[0,1] = 1 * 0.5 + (-2) * 4 = -7.5");
  EXPECT_EQ(forward_example(recording, entry("relu")), "y[0,0] = max(5, 0) = 5");
  EXPECT_EQ(backward_rule(recording, entry("relu"), 0), "dx = dy * (y > 0)");
  EXPECT_EQ(backward_example(recording, entry("relu"), 0), "dx[0,0] = 1 * (5 > 0) = 1");
  EXPECT_EQ(backward_example(recording, entry("matmul"), 1), "db[1,0] = 1 * (-2) = -2");
  EXPECT_EQ(forward_example(recording, entry("sum")), "y = 5 + 0 = 5");
  EXPECT_EQ(backward_example(recording, entry("sum"), 0), "dx[0,0] = dy = 1");
}

TEST(LocalRule, PutsNumbersIntoLossesMovesAndRecurrentLayers) {
  const Tensor logits = leaf({1, 2, 4, 0, 0, 3}, {2, 3});
  const Tensor label = from_vector({1, 2}, {2}, {.dtype = DType::i64, .device = reference_device});
  const Tensor x = leaf({0.5, -1}, {1, 1, 2}), w_ih = leaf({2, 1}, {1, 2}),
               w_hh = leaf({3}, {1, 1});
  const RecurrentParameters cell{.w_ih = w_ih, .w_hh = w_hh};
  StepRecorder recorder({.values = true});
  const Tensor y =
      recurrent(x, {&cell, 1},
                {.kind = RecurrentKind::rnn_tanh, .initial = {.h = leaf({0.5}, {1, 1, 1})}})
          .y;
  backward(cross_entropy(transpose(transpose(logits, {1, 0}), {1, 0}), label) + sum(y));
  const Recording recording = recorder.recording();
  const auto entry = [&](const char* name) -> const TapeEntry& {
    return entry_named(recording, name);
  };
  EXPECT_EQ(forward_example(recording, entry("transpose")), "y[2,0] = x[0,2] = 4");
  EXPECT_EQ(backward_example(recording, entry("transpose"), 0), "dx[0,1] = dy[1,0] = -0.4429");
  EXPECT_EQ(forward_example(recording, entry("cross_entropy")),
            "y = -1 * log(0.1142) / 2 + (-1 * log(0.9094) / 2) = 1.132");
  EXPECT_EQ(backward_example(recording, entry("cross_entropy"), 0),
            "dx[0,1] = 1 * (0.1142 - 1) / 2 = -0.4429");
  const TapeEntry& layer = entry("recurrent");
  EXPECT_EQ(forward_rule(layer), "y = tanh(x @ w_ih^T + b_ih + h @ w_hh^T + b_hh), at each step");
  EXPECT_EQ(forward_example(recording, layer), "y[0,0,0] = tanh(1.5) = 0.9051");
  EXPECT_EQ(backward_example(recording, layer, 3), "dw_ih[0,1] = 0.1807 * (-1) = -0.1807");
}

TEST(LocalRule, AFusedLeakyReluHasTheSlopeItWasGiven) {
  const ActivationSpec leaky{.kind = Activation::leaky_relu, .slope = 0.25f};
  const Tensor x = leaf({1, -2}, {1, 2}), w = leaf({3, 0.5, -1, 4}, {2, 2});
  const Tensor image = leaf({1, -2, 3, -4}, {1, 2, 2, 1}), filter = leaf({-1}, {1, 1, 1, 1});
  const Recording recording = step_of([&] {
    return sum(linear(x, w, {}, leaky)) + sum(conv2d(image, filter, {}, {.activation = leaky}));
  });
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

TEST(LocalRule, SaysOnlyWhatTheOperatorHas) {
  const Tensor x = leaf({1, -2}, {1, 2}), w = leaf({3, 0.5, -1, 4}, {2, 2}), b = leaf({1, 2});
  const Tensor weights = from_vector({0, 2}, {2}, exact);
  const Tensor labels = from_vector({1}, {1}, {.dtype = DType::i64, .device = reference_device});
  const Recording recording = step_of([&] {
    return cross_entropy(linear(linear(x, w, {}), w, b), labels, {.class_weight = weights});
  });
  std::vector<std::string> rules;
  for (const TapeEntry& entry : recording.entries) {
    if (entry.kind != TapeKind::op) continue;
    rules.push_back(forward_rule(entry));
    rules.push_back(backward_rule(recording, entry, 0));
  }
  EXPECT_THAT(
      rules,
      testing::ElementsAre(
          "y = x @ w^T", "dx = dy @ w", "y = x @ w^T + b", "dx = dy @ w",
          "y = sum of -weight * target * log(softmax(x)) / sum of weight, the weight of each row's "
          "class",
          "dx = dy * weight * (softmax(x) - target) / sum of weight, of which forward kept all but "
          "dy"));
}

// In training, and frozen with the running statistics.
class NormRule : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, NormRule, ::testing::Bool());

TEST_P(NormRule, HasItsActivation) {
  for (const Activation kind : {Activation::silu, Activation::hard_swish, Activation::relu6}) {
    const Tensor x = leaf({1, -2, 3, 0.5, -4, 2}, {3, 2});
    const Tensor gamma = leaf({1.5, 0.5}), beta = leaf({0.25, -1});
    const auto statistic = [] { return full({2}, 1.5, exact); };
    const Recording recording = step_of([&] {
      return sum(pow(batch_norm(x, gamma, beta,
                                {.running_mean = statistic(),
                                 .running_var = statistic(),
                                 .pending_mean = statistic(),
                                 .pending_var = statistic()},
                                {.training = GetParam(), .activation = {.kind = kind}}),
                     2));
    });
    const TapeEntry& norm = entry_named(recording, "batch_norm");
    EXPECT_EQ(operator_parts(norm), fmt::format("batch_norm + {}", name_of(kind)));
    EXPECT_THAT(backward_rule(recording, norm, 2), testing::HasSubstr(", dz = dy * "));
    EXPECT_NE(forward_example(recording, norm), "") << name_of(kind);
    for (size_t operand = 0; operand < 3; ++operand) {
      EXPECT_NE(backward_example(recording, norm, operand), "") << name_of(kind) << operand;
    }
  }
}

// Attributes and shapes may come from a file.
TEST(LocalRule, ATransposeWithAnAxisTwiceHasNoTerms) {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  Recording recording = step_of([&] { return sum(transpose(x, {1, 0})); });
  TapeEntry& entry = entry_named(recording, "transpose");
  EXPECT_TRUE(for_each_link(recording, entry, [](const OpLink&) {}));
  EXPECT_NE(backward_example(recording, entry, 0), "");
  entry.attributes = "order 0 -2";
  EXPECT_FALSE(for_each_link(recording, entry, [](const OpLink&) {}));
  EXPECT_EQ(backward_example(recording, entry, 0), "");
}

TEST(LocalRule, AWindowFarLargerThanItsImageTakesNoTime) {
  const Tensor x = leaf({5}, {1, 1, 1, 1});
  Recording recording = step_of([&] { return sum(max_pool2d(x, {.kernel = 1, .stride = 1})); });
  TapeEntry& entry = entry_named(recording, "max_pool2d");
  entry.attributes = "kernel 4096 4096, stride 1 1, padding 32 32";
  entry.outputs[0].shape = {1, 64, 64, 1};
  int64_t links = 0;
  EXPECT_TRUE(for_each_link(recording, entry, [&](const OpLink& link) {
    EXPECT_EQ(link.operands[0], 0);
    ++links;
  }));
  EXPECT_EQ(links, 33 * 33);  // the windows that begin at the pixel or before it
}

TEST(LocalRule, ALargeOperandOfAFileTakesNoTime) {
  Recording recording;
  recording.entries = {{.kind = TapeKind::leaf, .name = "x"},
                       {.name = "sum", .attributes = "axes 0"}};
  recording.entries[0].outputs = {{.shape = {int64_t{1} << 40}}};
  TapeEntry& sum = recording.entries[1];
  sum.inputs = {{.entry = 0}};
  sum.outputs = {{.shape = {}, .value = {.all = {1}}, .gradient = {.all = {1}}}};
  sum.given = {{.input = 0, .sum = {.all = {1}}}};
  EXPECT_EQ(forward_example(recording, sum), "");
  EXPECT_EQ(backward_example(recording, sum, 0), "");
  sum.example = "y = 1";
  EXPECT_EQ(forward_example(recording, sum), "y = 1");
}

TEST(LocalRule, FusedOperatorsShowTheirParts) {
  const Tensor x = rand_normal({1, 4, 4, 1}, 0, 1, 3, 1), w = rand_normal({2, 3, 3, 1}, 0, 1, 3, 2);
  w.set_requires_grad("w");
  const Recording recording = step_of([&] {
    return sum(conv2d(
        x, w, {},
        {.padding = 1, .activation = {.kind = Activation::relu}, .max_pool = Pool2dOptions{}}));
  });
  EXPECT_EQ(operator_parts(entry_named(recording, "conv2d_max_pool2d")),
            "conv2d + relu + max_pool2d");
}

}  // namespace
}  // namespace whisker
