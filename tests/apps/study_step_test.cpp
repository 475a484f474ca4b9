// Built-in networks, formulas, and the keys of study step.
#include "apps/commands/study_target.h"
#include "apps/study/builtin_networks.h"
#include "apps/study/expression_functions.h"
#include "apps/study/step_session.h"
#include "core/autograd/autograd.h"
#include "core/trace/operator_table.h"
#include "tests/core/trace/recording_support.h"
#include "tests/support/error_of.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TensorOptions exact_reference{.dtype = DType::f64, .device = reference_device};

Recording recorded(const std::string& formula, const std::vector<NamedFormula>& bindings) {
  const Expression expression(formula, bindings, {.tensor = exact_reference});
  StepRecorder recorder({.values = true});
  expression.run(recorder);
  Recording recording = recorder.recording();
  recording.title = expression.describe();
  return recording;
}

std::string formula_error(const std::string& formula, const std::vector<NamedFormula>& bindings) {
  return test::message_of(ErrorKind::usage, [&] { recorded(formula, bindings); });
}

Recording recorded_network(const std::string& name) {
  const BuiltinNetwork& network = *find_builtin_network(name);
  return recorded(std::string(network.formula), network.bindings);
}

TEST(BuiltinNetworks, RunOnTheReferenceAndTheCpu) {
  EXPECT_THAT(builtin_network_names(), ElementsAre("mlp", "conv", "max_pool_tie", "batch_norm",
                                                   "lstm_cell", "attention", "residual"));
  for (const BuiltinNetwork& network : builtin_networks()) {
    for (const TensorOptions options : {exact_reference, TensorOptions{}}) {
      const Expression expression(std::string(network.formula), network.bindings,
                                  {.tensor = options});
      StepRecorder recorder({.values = true});
      expression.run(recorder);
      const Recording recording = recorder.recording();
      const StepFrames frames(recording);
      EXPECT_GE(frames.count(), 5u) << network.name;
      for (size_t i = 0; i < frames.count(); ++i) EXPECT_NE(frames.text(i), "") << network.name;
    }
  }
}

TEST(BuiltinNetworks, ATieGivesItsGradientToTheFirst) {
  const Recording recording = recorded_network("max_pool_tie");
  EXPECT_THAT(entry_named(recording, "x").outputs[0].gradient.all, ElementsAre(0, 0.5, 0, 0));
}

TEST(Expression, ComputesWithTheOperators) {
  const Recording recording = recorded("h = x @ w; mean((h / 2 - [[1, 1]])^2 + -1 * h)",
                                       {{"x", "const([[1, 2]])"}, {"w", "[[1, 0], [0, 3]]"}});
  // h = (1, 6); d/dh of the mean: (h/2 - 1) / 2 - 1/2.
  EXPECT_THAT(entry_named(recording, "matmul").outputs[0].gradient.all, ElementsAre(-0.75, 0.5));
  EXPECT_THAT(entry_named(recording, "w").outputs[0].gradient.all,
              ElementsAre(-0.75, 0.5, -1.5, 1));
  EXPECT_FALSE(entry_named(recording, "x").outputs[0].gradient.known());
  EXPECT_EQ(recording.title, "h = x @ w; mean((h / 2 - [[1, 1]])^2 + -1 * h), f64 on reference");
}

TEST(Expression, HasTheOperatorsOfTheTable) {
  const std::vector<std::string> names = expression_function_names();
  // Fused operators, and what other operators are made of, have no formula of their own.
  const std::string without =
      " cast activation drop_path argmax sum_to sum_products_to split pad recurrent recurrent_gru "
      "recurrent_tanh conv2d_max_pool2d conv2d_with_sums add_batch_norms batch_norm_max_pool2d "
      "batch_norm_excite batch_norm_conv2d ";
  for (const OperatorRow& row : operator_table()) {
    const bool left_out = without.find(fmt::format(" {} ", row.name)) != std::string::npos;
    EXPECT_NE(std::ranges::count(names, row.name) > 0, left_out) << row.name;
  }
}

TEST(Expression, ErrorsNameThePlace) {
  EXPECT_EQ(formula_error("mean(tahn(x))", {{"x", "[1]"}}),
            "study -e: column 6: no operator is called 'tahn'; did you mean 'tanh'?\n"
            "  mean(tahn(x))\n"
            "       ^");
  EXPECT_THAT(formula_error("mean(x @ w)", {{"x", "[[1, 2]]"}, {"w", "randn(3, 3)"}}),
              HasSubstr("study -e: column 8: matmul: a has 2 columns, b has 3 rows"));
  EXPECT_THAT(formula_error("mean(x + z)", {{"x", "[1]"}}), HasSubstr("column 10: z has no value"));
  EXPECT_THAT(formula_error("mean(x)", {{"x", "[[1], [1, 2]]"}}),
              HasSubstr("study -e: x: column 1: expected rows of equal length"));
  EXPECT_THAT(formula_error("mean(x)", {{"x", "randn(3000, 3000)"}}), HasSubstr("at most"));
  EXPECT_THAT(formula_error("mean(reshape(x, x))", {{"x", "[1]"}}),
              HasSubstr("expected shape as integers in 0 to 1000000, got a tensor"));
  EXPECT_THAT(formula_error("mean(reshape(x, [[1]]))", {{"x", "[1]"}}), HasSubstr("got a list"));
  EXPECT_THAT(formula_error("mean(x)", {{"x", "[1]"}, {"w", "[1]"}}),
              HasSubstr("'w' has a value, but the formula does not use it"));
  EXPECT_THAT(formula_error("mean(relu(x * v))", {{"x", "[1]"}, {"w", "[1]"}}),
              ::testing::EndsWith("does not use it: 'mean(relu(x * v))', in which 'v' has none."));
  EXPECT_THAT(formula_error("mean(half(x))", {{"x", "[1]"}}),
              HasSubstr("no operator is called 'half': it is none of "));
  EXPECT_THAT(formula_error("x", {{"x", "[1, 2]"}}), HasSubstr("a loss of one element"));
  EXPECT_THAT(formula_error("mean(x)", {{"x", "const([1])"}}), HasSubstr("wants a gradient"));
  EXPECT_THAT(formula_error("mean(x, 1, 0, 3)", {{"x", "[[[[1]]]]"}}),
              HasSubstr("mean has too many arguments"));
  EXPECT_THAT(formula_error("sum(max_pool2d(x, kernal=2))", {{"x", "ones(1, 2, 2, 1)"}}),
              HasSubstr("max_pool2d has no argument 'kernal'; it takes x, kernel, "));
  EXPECT_THAT(test::message_of(ErrorKind::usage, [] { binding_of("3x=1"); }),
              HasSubstr("expected NAME=VALUE"));
}

TEST(Expression, PartsNameTheirOperators) {
  const Expression expression("h = relu(x); sum(h * h)", {{"x", "[1, -2]"}}, {});
  StepRecorder recorder({.values = true});
  expression.run(recorder);
  std::vector<std::string> layers;
  for (const TapeEntry& entry : recorder.recording().entries) {
    if (entry.kind == TapeKind::op) layers.push_back(entry.layer);
  }
  EXPECT_THAT(layers, ::testing::ElementsAre("h", "", ""));
}

TEST(Expression, CastsAreNamedAsFormulasWriteThem) {
  EXPECT_THAT(formula_error("mean(bf16(x))", {{"x", "[1]"}}),
              HasSubstr("got bf16 (1). Convert it with f32(x)."));
  EXPECT_THAT(formula_error("mean(i64(x) * x)", {{"x", "[1]"}}),
              HasSubstr("Convert one of them with i64(x)."));
}

std::string target_error(const StudyTarget& target) {
  const Invocation quiet{.verbosity = -1, .run = {}};
  return test::message_of(ErrorKind::usage, [&] { record_target(target, false, quiet); });
}

TEST(StudyTargets, APrecisionThatTheDeviceLacksIsRefused) {
  StudyTarget target;
  target.name = "mlp";
  target.arguments = {"precision=f64"};
  EXPECT_EQ(target_error(target),
            "study: precision: expected one of f32, bf16 on cpu, or f64 with device=reference, got "
            "'f64'.");
  target.arguments = {"precision=f16", "device=reference"};
  EXPECT_EQ(target_error(target),
            "study: precision: expected one of f32, f64 on reference, got 'f16'.");
  target.arguments = {"precision=f64", "device=reference"};
  EXPECT_EQ(target_error(target), "no error");
}

TEST(StudyTargets, OptionsOfNetworksGoWithConfigurationsAlone) {
  StudyTarget target;
  target.name = "lstm_cell";
  target.network.cells = true;
  EXPECT_EQ(target_error(target),
            "study: --cells: expected a YAML file or a preset as TARGET, got lstm_cell, which is "
            "built in. Leave --cells out.");
  target.network = {.batch = 4};
  target.name = "step.safetensors";
  EXPECT_THAT(target_error(target),
              HasSubstr("--batch-size: expected a YAML file or a preset as TARGET, got the "
                        "recording 'step.safetensors'"));
  target.network = {.steps = 4};
  target.name = "x=[1]";
  target.expression = "mean(x)";
  EXPECT_THAT(target_error(target), HasSubstr("study: --steps: expected a YAML file or a preset"));
  target.network = {.classes = 4};
  EXPECT_THAT(target_error(target), HasSubstr("as TARGET, got -e FORMULA. Leave --classes out."));
  target.network = {};
  target.usual_batch = 2;
  EXPECT_EQ(target_error(target), "no error");
}

TEST(StepSession, GoingBackShowsEachFrameBitForBit) {
  const Recording recording = recorded_network("residual");
  const StepFrames frames(recording);
  StepSession session(frames, {.all_values = true});
  std::vector<std::string> forwards = {session.text()};
  while (session.follow("n").empty()) forwards.push_back(session.text());
  ASSERT_EQ(forwards.size(), frames.count());
  std::vector<std::string> back = {session.text()};
  while (session.follow("p").empty()) back.push_back(session.text());
  std::reverse(back.begin(), back.end());
  EXPECT_EQ(back, forwards);
}

TEST(StepSession, FollowsKeys) {
  const Recording recording = recorded_network("mlp");
  const StepFrames frames(recording);
  StepSession session(frames, {});
  EXPECT_EQ(session.follow("p"), "this is the first frame\n");
  session.follow("b");
  EXPECT_EQ(session.frame(), frames.loss());
  session.follow("/tanh");
  EXPECT_THAT(session.text(), HasSubstr("backward 6: 3 tanh"));
  const std::string few = session.text();
  session.follow("v");
  EXPECT_NE(session.text(), few);
  session.follow("v");
  EXPECT_EQ(session.text(), few);
  session.follow("f");
  EXPECT_EQ(session.frame(), frames.count() - 1);
  EXPECT_EQ(session.follow("/nowhere"), "no other frame has 'nowhere'\n");
  EXPECT_THAT(test::message_of(ErrorKind::usage, [&] { session.follow("z"); }),
              HasSubstr("expected a key (n next"));
  EXPECT_THAT(script_words(" n  /a  q "), ElementsAre("n", "/a", "q"));
  EXPECT_THAT(test::message_of(ErrorKind::usage, [] { script_words("n nn"); }), HasSubstr("'nn'"));
}

}  // namespace
}  // namespace whisker
