// study's parts below the command line.
#include "apps/study/gradcheck_report.h"
#include "apps/study/study_network.h"
#include "core/autograd/autograd.h"
#include "core/ops/ops.h"
#include "core/trace/operator_table.h"
#include "core/trace/tape_listing.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;

constexpr const char* tiny = R"(
name: tiny
data: {train: nowhere, image_size: 12}
model:
  layers:
    - conv2d: {filters: 3, kernel: 3, activation: relu, name: first}
    - batch_norm: {name: norm}
    - global_avg_pool2d
    - dense: {units: classes, name: head}
)";

class StudyTest : public ::testing::Test {
 protected:
  std::string file() const { return folder_.write("tiny.yaml", tiny).string(); }
  TemporaryFolder folder_;
};

std::string error_of(const GradcheckRequest& request) {
  return test::message_of(ErrorKind::usage, [&] { run_gradcheck(request); });
}

TEST(StudyOperators, EveryGradientAgreesWithFiniteDifferences) {
  const GradcheckReport report = run_gradcheck({.what = "all"});
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_THAT(report.text(), HasSubstr("conv2d"));
}

TEST(StudyOperators, AWrongOperatorIsReported) {
  const OperatorRow wrong{"square", [](Arguments& a) {
                            const Tensor x = a.operand("x", {2, 2});
                            const Tensor y = mul(x.detach(), x.detach());
                            record("square", {&x}, y, [x = save(x)](Gradients& g) {
                              g.accumulate_grad(0, mul(g.dy(), x(g)));
                            });
                            return y;
                          }};
  const GradcheckReport report{.results = gradcheck_operator(wrong, {}), .owners = {"square"}};
  EXPECT_FALSE(report.passed());
  EXPECT_THAT(report.text(), HasSubstr("WRONG"));
  EXPECT_THAT(report.text(), HasSubstr("1 of 1 gradients are wrong (tolerance 1e-06)\n"));
}

TEST(StudyOperators, EveryGradientOfAGradientAgreesAndTheRestAreNamed) {
  const GradcheckReport report = run_gradcheck({.what = "all", .second_order = true});
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_GT(report.results.size(), 100u);
  EXPECT_THAT(report.unsupported, ::testing::Contains("conv2d"));
  EXPECT_THAT(report.unsupported, ::testing::Not(::testing::Contains("matmul")));
  EXPECT_THAT(report.text(100), HasSubstr("operators without gradients of gradients: gather, "));
  EXPECT_THAT(error_of({.what = "softmax", .second_order = true}),
              HasSubstr("softmax: gradients of gradients are not available"));
}

TEST(StudyOperators, KinksAreNoErrors) {
  const GradcheckReport report = run_gradcheck({.what = "max_pool_tie"});
  EXPECT_TRUE(report.passed());
  ASSERT_EQ(report.results.size(), 1u);
  EXPECT_EQ(report.results[0].kinks.size(), 2u);
  EXPECT_THAT(report.text(100), HasSubstr("x: 2 kinks, such as (0,0,1,0): slope 0 to the left, 0.5 "
                                          "to the right, gradient 0.5 between them\n"));
  EXPECT_THAT(report.text(100), HasSubstr("(tolerance 1e-06), but for 2 kinks\n"));
  EXPECT_THAT(report.json(), HasSubstr("\"kinks\":[{\"index\":1,"));
}

// Truncation falls with the square of the step, rounding grows as it shrinks.
TEST(StudyOperators, ErrorsOverTheStepAreDrawn) {
  const GradcheckReport report = run_gradcheck(
      {.what = {}, .overrides = {"x=[0.5, 1]"}, .expression = "sum(exp(x))", .sweep = true});
  const std::vector<double> steps = sweep_steps(), &errors = report.results[0].sweep;
  ASSERT_EQ(errors.size(), steps.size());
  EXPECT_DOUBLE_EQ(steps.front(), 1e-1);
  EXPECT_DOUBLE_EQ(steps.back(), 1e-12);
  EXPECT_NEAR(errors[0], 1e-2 / 6, 1e-5);
  EXPECT_NEAR(errors[2] / errors[0], 1e-2, 1e-3);
  EXPECT_GT(errors.back(), 1e-6);
  EXPECT_LT(*std::min_element(errors.begin(), errors.end()), 1e-9);
  const std::string svg = report.svg();
  EXPECT_THAT(svg, HasSubstr("least error, at 1e-0"));
  EXPECT_TRUE(is_gradcheck_svg(svg));
  EXPECT_FALSE(is_gradcheck_svg(svg + " "));
}

TEST(StudyOperators, SlipsGetTheNearestName) {
  EXPECT_EQ(error_of({.what = "batchnorm"}),
            "study gradcheck: no operator, preset or file is called 'batchnorm'; did you mean "
            "'batch_norm'?");
  EXPECT_THAT(error_of({.what = "zzz"}), HasSubstr("Operators: all, add, sub, "));
  EXPECT_THAT(error_of({.what = "add", .overrides = {"a.b=1"}}),
              HasSubstr("overrides go with a YAML file, not with an operator"));
}

TEST(StudyOperators, OfALargeNetworkSomeParametersAreChecked) {
  EXPECT_THAT(checked_parameters(161, 10), ::testing::SizeIs(16));
  EXPECT_THAT(checked_parameters(100, 1000), ::testing::ElementsAre(0, 14, 28, 42, 56, 70, 84, 99));
  EXPECT_THAT(checked_parameters(9, 1), ::testing::SizeIs(9));
  EXPECT_THAT(checked_parameters(3, 1000), ::testing::ElementsAre(0, 1, 2));
}

TEST_F(StudyTest, NetworksAreCheckedParameterByParameter) {
  const GradcheckReport report = run_gradcheck({.what = file(), .elements = 1000});
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_THAT(report.text(), HasSubstr("tiny, (2,12,12,3) f64 on reference, 2 classes"));
  EXPECT_THAT(report.text(), HasSubstr("first.weight  (3,3,3,3)    81/81"));
  EXPECT_THAT(report.text(), HasSubstr("all 6 gradients agree"));
}

// With one value per channel of each example, a batch norm of two examples would give -1 and 1.
TEST_F(StudyTest, ImagesStayLargeEnoughForBatchNorm) {
  folder_.write("deep.yaml", R"(
name: deep
data: {train: nowhere, image_size: 128}
model:
  defaults: {conv2d: {kernel: 3, strides: 2, padding: same}}
  layers:
    - conv2d: 2
    - batch_norm
    - conv2d: 2
    - batch_norm
    - conv2d: 2
    - batch_norm
    - conv2d: 2
    - batch_norm
    - global_avg_pool2d
    - dense: {units: classes}
)");
  const std::string path = (folder_ / "deep.yaml").string();
  const GradcheckReport report = run_gradcheck({.what = path, .elements = 20000});
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_THAT(report.text(), HasSubstr("(2,32,32,3) f64"));
}

TEST_F(StudyTest, FrozenParametersAreLeftOut) {
  const GradcheckReport report =
      run_gradcheck({.what = file(), .overrides = {"freeze=[first, norm]"}});
  EXPECT_THAT(report.text(), HasSubstr("all 2 gradients agree"));
}

TEST_F(StudyTest, TheListingNamesLayersParametersAndImages) {
  const StudyNetwork network(read_config(file(), {}), {.batch = 3, .classes = 5});
  EXPECT_EQ(network.describe(), "tiny, (3,12,12,3) f32 on cpu, 5 classes");
  StepRecorder recorder;
  network.run(recorder);
  const std::string text = tape_listing(recorder.recording());
  EXPECT_THAT(text,
              ::testing::ContainsRegex("1  conv2d +first .*images, first.weight, first.bias"));
  EXPECT_THAT(text, ::testing::ContainsRegex("2  batch_norm +norm "));
  EXPECT_THAT(text, ::testing::ContainsRegex("accumulate +head.bias +\\(5\\)"));
}

TEST_F(StudyTest, LayersComputeInTheGivenPrecision) {
  const StudyNetwork narrow(read_config(file(), {}),
                            {.batch = 3, .tensor = {.dtype = DType::bf16, .device = cpu_device}});
  EXPECT_EQ(narrow.describe(), "tiny, (3,12,12,3) bf16 on cpu, 2 classes");
  StepRecorder recorder({.values = true});
  narrow.run(recorder);
  const std::string text = tape_listing(recorder.recording());
  EXPECT_THAT(text, ::testing::ContainsRegex("1  conv2d +first .*\\) +bf16 +images"));
  EXPECT_THAT(text, ::testing::ContainsRegex("cast .* f32 "));
  const StudyNetwork wide(read_config(file(), {}), {.batch = 3});
  EXPECT_NEAR(narrow.loss().item(), wide.loss().item(), 0.02);
  EXPECT_NE(narrow.loss().item(), wide.loss().item());
}

TEST_F(StudyTest, TheSameLossEveryTime) {
  const StudyNetwork network(read_config(file(), {}), {.batch = 3});
  EXPECT_EQ(network.loss().item(), network.loss().item());
}

// Label smoothing is that of training (train/metrics/objective.cpp).
TEST(StudyLabels, OneOutputHasLabelSmoothing) {
  const auto loss = [](const std::string& smoothing) {
    return StudyNetwork(
               read_config_text("name: net\ndevice: cpu\ndata: {train: nowhere, image_size: "
                                "4}\nmodel: {layers: [flatten, {dense: {units: 1, "
                                "activation: sigmoid}}]}\n",
                                "net.yaml", {"loss.label_smoothing=" + smoothing}),
               {.batch = 2})
        .loss()
        .item();
  };
  EXPECT_NE(loss("0.5"), loss("0"));
}

/// The heading and the listing of a tape over sequences.
std::pair<std::string, std::string> tape_of(const Config& config, const StudyOptions& options) {
  const StudyNetwork network(config, options);
  StepRecorder recorder;
  network.run(recorder);
  const std::string text = tape_listing(recorder.recording());
  EXPECT_EQ(network.loss().item(), network.loss().item());
  return {network.describe(), text};
}

Config sequence_config(const std::string& rest, const std::vector<std::string>& overrides = {}) {
  return read_config_text("name: net\ndevice: cpu\n" + rest, "net.yaml", overrides);
}

TEST(StudySequences, TokensHaveLengths) {
  const Config config = sequence_config(R"(
data: {kind: text, train: nowhere, val_split: 0.1}
model: {layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {lstm: 6}, {dense: {units: classes}}]}
)");
  const auto [heading, text] = tape_of(config, {.batch = 3, .classes = 5, .steps = 9});
  EXPECT_THAT(heading, ::testing::ContainsRegex("^net, \\(9,3\\) f32 on cpu, lengths 9 [0-9]+ "
                                                "[0-9]+, 5 classes$"));
  EXPECT_THAT(text, ::testing::ContainsRegex("embedding +embedding .*f32 +tokens "));
  EXPECT_THAT(text, ::testing::ContainsRegex("recurrent +lstm .*input, lengths, "));
  EXPECT_THAT(text, ::testing::ContainsRegex("recurrent +lstm +\\(9,3,6\\) .*lstm.weight_ih_l0"));
  EXPECT_EQ(tape_of(config, {.batch = 3, .steps = 9}).first,
            tape_of(config, {.batch = 3, .steps = 9}).first);
}

TEST(StudySequences, RowsSeriesAndLanguageModels) {
  const char* const row =
      "data: {kind: rows, train: nowhere, val_split: 0.1, rows: {features: 7}}\n";
  EXPECT_THAT(
      tape_of(sequence_config(std::string(row) + "model: simple_rnn\n"), {.batch = 2, .steps = 5}),
      ::testing::Pair(::testing::ContainsRegex("^simple_rnn, \\(5,2,7\\) f32 on cpu, lengths 5 "
                                               "[0-9], 2 classes$"),
                      HasSubstr("sequences, simple_rnn.weight_ih_l0")));
  EXPECT_THAT(tape_of(sequence_config(R"(
data: {kind: series, train: nowhere, val_split: 0.1, series: {columns: [1, 2], window: 8, horizon: 3}}
model: {layers: [{gru: 4}, {dense: {units: 6}}]}
)"),
                      {.batch = 2}),
              ::testing::Pair("net, (8,2,2) f32 on cpu, 6 outputs", HasSubstr("targets")));
  const auto [heading, text] = tape_of(sequence_config(R"(
data: {kind: language, train: nowhere, val_split: 0.1}
model:
  layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {lstm: {units: 5, return_sequences: true}}]
  head: [{dense: {units: classes}}]
)"),
                                       {.batch = 2, .steps = 4});
  EXPECT_EQ(heading, "net, (4,2) f32 on cpu, 100 tokens");
  EXPECT_THAT(text, HasSubstr("cross_entropy"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("lengths")));
}

TEST(StudySequences, CellsAreTheLayerOperatorByOperator) {
  for (const char* layer : {"{simple_rnn: 6}", "{lstm: {units: 6, bidirectional: true}}",
                            "{gru: {units: 6, layers: 2}}"}) {
    const Config config = sequence_config(
        fmt::format("data: {{kind: rows, train: nowhere, val_split: 0.1, rows: {{features: 3}}}}\n"
                    "model: {{layers: [{}, {{dense: {{units: classes}}}}]}}\n",
                    layer));
    const StudyNetwork whole(config, {.batch = 3, .steps = 5});
    const StudyNetwork apart(config, {.batch = 3, .steps = 5, .cells = true});
    EXPECT_NEAR(apart.loss().item(), whole.loss().item(), 1e-6) << layer;
    const std::string text = tape_of(config, {.batch = 3, .steps = 5, .cells = true}).second;
    EXPECT_THAT(text, HasSubstr(" tanh ")) << layer;
    EXPECT_THAT(text, ::testing::Not(HasSubstr(" recurrent "))) << layer;
  }
}

TEST(StudySequences, LongOnesAreCutUntilACheckTakesSeconds) {
  const TemporaryFolder folder;
  const std::string path = (folder / "long.yaml").string();
  folder.write("long.yaml", R"(
name: long
data: {kind: rows, train: nowhere, val_split: 0.1}
model: {layers: [{gru: 2}, {dense: {units: classes}}]}
)");
  const GradcheckReport report =
      run_gradcheck({.what = path, .network = {.batch = 2, .steps = 4096}, .elements = 100000});
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_THAT(report.text(), ::testing::ContainsRegex("\\([0-9]+ instead of 4096 steps, so that"));
}

TEST_F(StudyTest, ClassesAreTheFoldersOfTheData) {
  for (const char* name : {"ants", "bees", "cats", ".hidden"}) {
    folder_.write(fmt::format("data/{}/1.jpg", name), "not read for its class");
  }
  const StudyNetwork network(read_config(file(), {"data.train=" + (folder_ / "data").string()}),
                             {.batch = 1});
  EXPECT_EQ(network.model().output, (Shape{1, 3}));
}

}  // namespace
}  // namespace whisker
