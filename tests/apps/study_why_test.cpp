// study why: each cause planted in a network and in a formula, and beside it the same where the
// gradient lives.
#include "apps/commands/study_target.h"
#include "core/io/safetensors_stream.h"
#include "core/trace/gradient_paths.h"
#include "core/trace/recording_file.h"
#include "tests/support/temporary_folder.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A target, a parameter and an element of it; -1 for all.
struct Planted {
  std::string what;  // layers of images of 4 pixels, a formula, or "text" with a layer's name
  std::vector<std::string> arguments;
  std::string parameter;
  int64_t element = -1;
};

struct CauseCase {
  const char* cause;
  Planted dead, alive;
};

constexpr const char* head = "{dense: {units: classes, name: head}}";

Planted dense(const std::string& settings, const std::string& behind = "",
              std::vector<std::string> overrides = {}) {
  return {fmt::format("[flatten, {{dense: {{units: 3, name: first, {}}}}}, {}{}]", settings, behind,
                      head),
          std::move(overrides), "first.weight"};
}

Planted of(Planted planted, const std::string& parameter) {
  planted.parameter = parameter;
  return planted;
}

Planted with_bias(const std::string& activation, double bias) {
  return dense(fmt::format("activation: {}, bias_initializer: {{constant: {{value: {}}}}}",
                           activation, bias));
}

// The class token beside positions of a convolution with this bias, of which the largest counts.
Planted tokens(double bias) {
  return {fmt::format("[{{conv2d: {{filters: 2, kernel: 1, bias_initializer: {{constant: {{value: "
                      "{}}}}}}}}}, {{class_token: {{name: token}}}}, global_max_pool2d, {}]",
                      bias, head),
          {},
          "token"};
}

Planted drop_path(double rate) {
  return {fmt::format("[{{residual: {{drop_path: {}, activation: none, body: [{{conv2d: {{filters: "
                      "3, kernel: 1, name: first}}}}]}}}}, flatten, {}]",
                      rate, head),
          {},
          "first.weight"};
}

const std::vector<std::string> two = {"x=[-1, -2]"}, positive = {"x=[1, 2]"};
const std::vector<std::string> weighted = {"x=[[1, 2], [2, 1]]", "t=i64([0, 1])",
                                           "c=const([0, 1])"};
const std::vector<std::string> chosen = {"x=[1, 2]", "y=[3, 4]"};

// One target of which an element gets no gradient, and another one does.
CauseCase elements(const char* cause, Planted planted, int64_t dead, int64_t alive = -1) {
  CauseCase one{cause, planted, planted};
  one.dead.element = dead;
  one.alive.element = alive;
  return one;
}

std::vector<CauseCase> cases() {
  return {
      {"frozen", dense("", "", {"freeze=[first]"}), dense("")},
      {"dead relu", with_bias("relu", -100), with_bias("relu", 100)},
      {"saturated", with_bias("tanh", 100), with_bias("tanh", 0)},
      {"saturated", with_bias("sigmoid", -200), with_bias("sigmoid", 0)},
      {"saturated", dense("kernel_initializer: {normal: {mean: 0, stddev: 1e5}}", "softmax, "),
       dense("kernel_initializer: {normal: {mean: 0, stddev: 0.1}}", "softmax, ")},
      {"lost maximum", tokens(100), tokens(-100)},
      elements("masked", {"text lstm", {}, "embedding.weight"}, 0),
      elements("masked", {"text cells", {}, "embedding.weight"}, 0),
      elements("no path", {"text lstm", {}, "embedding.weight"}, 199),
      {"dropped", dense("", "{dropout: {rate: 0.999}}, "), dense("", "{dropout: {rate: 0.001}}, ")},
      {"dropped", drop_path(0.999), drop_path(0.001)},
      {"clamped", with_bias("relu6", 100), with_bias("relu6", 3)},
      {"constant input", of(with_bias("relu", -100), "head.weight"),
       of(with_bias("relu", 100), "head.weight")},
      // Above 4,096 elements there are no terms, but zeros.
      {"dead relu",
       {fmt::format("[{{conv2d: {{filters: 200, kernel: 1, activation: relu, name: first, "
                    "bias_initializer: {{constant: {{value: -100}}}}}}}}, flatten, {}]",
                    head),
        {},
        "first.weight"},
       {fmt::format("[{{conv2d: {{filters: 200, kernel: 1, name: first}}}}, flatten, {}]", head),
        {},
        "first.weight"}},

      {"frozen",
       {"sum(x * y)", {"x=const([1])", "y=[2]"}, "x"},
       {"sum(x * y)", {"x=const([1])", "y=[2]"}, "y"}},
      {"detached", {"sum(detach(tanh(x)) * y)", chosen, "x"}, {"sum(tanh(x) * y)", chosen, "x"}},
      {"no path", {"u = tanh(x); sum(y)", chosen, "x"}, {"u = tanh(x); sum(u + y)", chosen, "x"}},
      elements("no path", {"sum(embedding(x, i64([1])))", {"x=[[1], [2]]"}, "x"}, 0, 1),
      {"dead relu", {"sum(relu(x))", two, "x"}, {"sum(relu(x))", positive, "x"}},
      {"dead relu",
       {"sum(linear(ones(1, 2), x, activation=relu))", {"x=[[-1, -2]]"}, "x"},
       {"sum(linear(ones(1, 2), x, activation=relu))", {"x=[[1, 2]]"}, "x"}},
      {"saturated", {"sum(tanh(100 * x))", positive, "x"}, {"sum(tanh(x))", positive, "x"}},
      {"saturated", {"sum(sigmoid(-200 * x))", positive, "x"}, {"sum(sigmoid(x))", positive, "x"}},
      {"saturated",
       {"sum(softmax(300 * x) * y)", chosen, "x"},
       {"sum(softmax(x) * y)", chosen, "x"}},
      elements("lost maximum", {"max(x)", positive, "x"}, 0, 1),
      {"lost maximum", {"sum(maximum(x, y))", chosen, "x"}, {"sum(maximum(x, y))", chosen, "y"}},
      elements("lost maximum", {"sum(max_pool2d(reshape(x, [1, 1, 2, 1]), [1, 2]))", positive, "x"},
               0, 1),
      {"masked",
       {"sum(where(greater(y, 9), x, y))", chosen, "x"},
       {"sum(where(greater(y, 1), x, y))", chosen, "x"}},
      elements("masked", {"sum(x * m)", {"x=[1, 2]", "m=const([0, 1])"}, "x"}, 0, 1),
      {"dropped",
       {"sum(dropout(x, 0.999))", positive, "x"},
       {"sum(dropout(x, 0.001))", positive, "x"}},
      {"clamped", {"sum(clamp(x, 3, 4))", positive, "x"}, {"sum(clamp(x, 0, 4))", positive, "x"}},
      elements("class weight zero", {"cross_entropy(x, t, class_weight=c)", weighted, "x"}, 0, 2),
      elements("constant input", {"sum([[0, 1]] @ x)", {"x=[[1], [2]]"}, "x"}, 0, 1),
      {"constant input",
       {"sum(batch_norm([[3], [3]], x, zeros(1)) * [[1], [2]])", {"x=[1]"}, "x"},
       {"sum(batch_norm([[3], [4]], x, zeros(1)) * [[1], [2]])", {"x=[1]"}, "x"}},
      {"zero weight",
       {"sum(x @ [[0], [0]])", {"x=[[1, 2]]"}, "x"},
       {"sum(x @ [[0], [1]])", {"x=[[1, 2]]"}, "x"}},
      {"cancelled",
       {"sum(batch_norm(reshape(x, [2, 1]), ones(1), zeros(1)))", positive, "x"},
       {"sum(batch_norm(reshape(x, [2, 1]), ones(1), zeros(1)) * [[1], [3]])", {"x=[1, 2]"}, "x"}},
      {"underflow",
       {"sum(f32(f16(x)) * 1e-9)", positive, "x"},
       {"sum(f32(f16(x)) * 1e-3)", positive, "x"}},
  };
}

class StudyWhyTest : public ::testing::Test {
 protected:
  Recording recorded(const Planted& planted) {
    const Invocation quiet{.verbosity = -1, .run = {}};
    StudyTarget target;
    target.arguments = planted.arguments;
    target.usual_batch = 2;
    target.arguments.emplace_back("device=reference");
    std::string yaml;
    if (planted.what.starts_with("text")) {
      target.network.steps = 6;
      target.network.batch = 4;
      target.network.cells = planted.what == "text cells";
      yaml =
          "{name: planted, data: {kind: text, train: nowhere, val_split: 0.1}, model: {layers: "
          "[{embedding: {input_dim: vocabulary, output_dim: 2}}, {lstm: 2}, {dense: {units: "
          "classes}}]}}";
    } else if (planted.what.starts_with('[')) {
      yaml = fmt::format(
          "{{name: planted, data: {{train: nowhere, image_size: 4}}, model: "
          "{{layers: {}}}}}",
          planted.what);
    } else {
      target.expression = planted.what;
    }
    if (!yaml.empty()) target.name = folder_.write("net.yaml", yaml).string();
    return record_target(target, true, quiet);
  }

  static GradientPaths why(const Recording& recording, const Planted& planted) {
    const auto found = std::find_if(
        recording.entries.begin(), recording.entries.end(), [&](const TapeEntry& entry) {
          return entry.kind != TapeKind::op && entry.name == planted.parameter;
        });
    if (found == recording.entries.end()) {
      ADD_FAILURE() << planted.what << " has no " << planted.parameter;
      return {};
    }
    return GradientPaths::of(recording, static_cast<size_t>(found - recording.entries.begin()),
                             planted.element < 0 ? std::nullopt : std::optional(planted.element));
  }

  std::string shown(const Planted& planted, size_t width = 100) {
    const Recording recording = recorded(planted);
    return why(recording, planted).text(recording, width);
  }

  TemporaryFolder folder_;
};

TEST_F(StudyWhyTest, NamesTheCauseWhereItDies) {
  for (const CauseCase& one : cases()) {
    SCOPED_TRACE(fmt::format("{}: {}", one.cause, one.dead.what));
    const Recording dead = recorded(one.dead);
    const GradientPaths paths = why(dead, one.dead);
    EXPECT_EQ(paths.zeros, paths.elements) << paths.text(dead, 0);
    EXPECT_EQ(paths.ends.empty() ? std::string() : paths.ends.back().loss.cause, one.cause)
        << paths.text(dead, 0);
    const Recording alive = recorded(one.alive);
    const GradientPaths living = why(alive, one.alive);
    EXPECT_LT(living.zeros, living.elements) << living.text(alive, 0);
    // The masked steps are ways that die.
    EXPECT_EQ(living.ends.empty(), one.alive.what != "text cells") << living.text(alive, 0);
    EXPECT_NEAR(living.paths.empty() ? 0 : living.paths[0].back().norm, living.norm, 1e-12);
  }
}

TEST_F(StudyWhyTest, ARecordingInAFileGivesTheSameAnswer) {
  const CauseCase one = cases()[1];
  const Recording recording = recorded(one.dead);
  RecordingFile file = RecordingFile::of(recording);
  std::string bytes;
  write_safetensors(
      [&](std::span<const std::byte> part) {
        bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
      },
      "step.safetensors", file.metadata, std::move(file.entries));
  const std::string path = folder_.write("step.safetensors", bytes).string();
  const Recording read = read_recording(SafetensorsFile::open(path));
  EXPECT_EQ(why(read, one.dead).text(read, 100), why(recording, one.dead).text(recording, 100));
}

TEST_F(StudyWhyTest, ShowsTheStrongestPathFirstAndCountsAll) {
  const Planted planted{"h = x + tanh(x); h = h + tanh(h); h = h + 0 * h; sum(h)", {"x=[1]"}, "x"};
  const Recording recording = recorded(planted);
  const GradientPaths paths = why(recording, planted);
  EXPECT_EQ(paths.count, 8);
  EXPECT_EQ(paths.paths.size(), GradientPaths::most_shown);
  const std::string text = paths.text(recording, 100);
  EXPECT_THAT(text, HasSubstr("path 1 of 8 from the loss"));
  EXPECT_THAT(text, HasSubstr("one way dies at 5 affine of h, zero factor: it multiplies by 0"));
  EXPECT_THAT(text, HasSubstr("x (1) f32: the gradient lives, norm 1.5"));
  // The other paths show the rows in which they differ.
  EXPECT_THAT(text, HasSubstr("path 2 of 8 from the loss, as path 1 to 2 add\n"
                              "  gradient  operator  layer  lost there\n"));
  EXPECT_THAT(text, HasSubstr("path 3 of 8 from the loss, as path 1 to 4 add and from 2 add on\n"));
}

// Each layer passes less than a quarter on, and none is to blame alone.
TEST_F(StudyWhyTest, AGradientThatVanishesLittleByLittleIsNoLivingOne) {
  const auto layers = [](const char* activation) {
    std::string all = "[flatten, ";
    for (int i = 0; i < 8; ++i) {
      all += fmt::format("{{dense: {{units: 8, activation: {}, name: l{}}}}}, ", activation, i);
    }
    return Planted{all + head + "]", {}, "l0.weight"};
  };
  const Recording deep = recorded(layers("sigmoid"));
  const GradientPaths paths = why(deep, layers("sigmoid"));
  EXPECT_TRUE(paths.vanishes());
  EXPECT_THAT(paths.text(deep, 0),
              ::testing::AllOf(HasSubstr("l0.weight (8,48) f32: the gradient vanishes, norm "),
                               ::testing::ContainsRegex(
                                   "\n  falls from operator to operator: [0-9.]+ arrives at "
                                   "10 linear of head, [0-9.e-]+ at 2 linear of l0; what "
                                   "each passes on multiplies\n"),
                               HasSubstr("  9 linear          l7     slopes of sigmoid from 0.2")));
  const Recording shallow = recorded(dense("activation: tanh"));
  const GradientPaths living = why(shallow, dense("activation: tanh"));
  EXPECT_FALSE(living.vanishes());
  EXPECT_THAT(living.text(shallow, 0), ::testing::AllOf(HasSubstr("the gradient lives"),
                                                        HasSubstr("slopes of tanh from 0.")));
  EXPECT_FALSE(why(recorded(with_bias("relu", -100)), with_bias("relu", -100)).vanishes());
}

TEST_F(StudyWhyTest, AGradientThatVanishesAtOneOperatorNamesIt) {
  const std::string text =
      shown({"sum(0.0001 * relu(x @ w))", {"x=const([[1, 2]])", "w=[[1, 3], [2, 4]]"}, "w"}, 0);
  EXPECT_THAT(text, HasSubstr("the gradient vanishes"));
  EXPECT_THAT(text, HasSubstr("\n  most of it at 3 affine: 1.414 arrives, 0.0001414 goes on\n"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("falls from operator to operator")));
}

TEST_F(StudyWhyTest, CountsElementsNotTerms) {
  EXPECT_THAT(shown(with_bias("relu", -100)),  // 2 images of 48 values, 3 units
              HasSubstr("dies at 2 linear of first, dead relu: slope 0 in 6 of 6 "
                        "elements (100 %)\n"));
  EXPECT_THAT(shown({"sum(x @ [[0], [1]])", {"x=[[1, 2], [3, 4]]"}, "x"}),
              HasSubstr("is 0 in 1 of 2 (50 %)"));
  EXPECT_THAT(shown({"cross_entropy(x, t, class_weight=c)", weighted, "x"}, 0),
              HasSubstr("class is 0 in 1 of 2 rows (50 %)"));
}

TEST_F(StudyWhyTest, NaNDoesNotLive) {
  const std::string text = shown({"cross_entropy(x, t, class_weight=c)",
                                  {"x=[[1, 2]]", "t=i64([0])", "c=const([0, 1])"},
                                  "x"});
  EXPECT_THAT(text, HasSubstr("x (1,2) f32: the gradient is NaN or Inf in 2 of 2 elements\n"
                              "  the first NaN or Inf of the step is at 1 cross_entropy\n"));
  EXPECT_THAT(text,
              HasSubstr("class weight zero: the weight of the row's class is 0 in 1 of 1 row"));
  EXPECT_THAT(text, HasSubstr("NaN, Inf  x\n"));
  EXPECT_THAT(shown({"sum(log(x))", {"x=[0, 1]"}, "x", 0}),
              HasSubstr("x[0] of (2) f32: the gradient is NaN or Inf\n"));
}

// A norm subtracts the mean of what it reads, and with it the bias before it.
TEST_F(StudyWhyTest, ARoundingErrorIsNoGradient) {
  const auto planted = [](const char* between) {
    return Planted{fmt::format("[{{conv2d: {{filters: 4, kernel: 3, name: first}}}}, {}"
                               "{{activation: relu}}, flatten, {}]",
                               between, head),
                   {},
                   "first.bias"};
  };
  const Recording before_norm = recorded(planted("batch_norm, "));
  const GradientPaths paths = why(before_norm, planted("batch_norm, "));
  ASSERT_EQ(paths.ends.size(), 1u) << paths.text(before_norm, 0);
  EXPECT_TRUE(paths.ends[0].nearly);
  EXPECT_EQ(paths.ends[0].loss.cause, "cancelled");
  EXPECT_THAT(paths.text(before_norm, 100),
              ::testing::AllOf(HasSubstr("first.bias (4) f32: the gradient nearly dies, norm "),
                               HasSubstr("\n  nearly dies at 1 conv2d of first, cancelled: terms "
                                         "add up to a rounding error\n")));
  const Recording alone = recorded(planted(""));
  EXPECT_TRUE(why(alone, planted("")).ends.empty());
}

// Each operator gives something, their sum is nothing.
TEST_F(StudyWhyTest, GradientsThatCancelAreNoOthersFault) {
  EXPECT_THAT(shown({"sum(x) - sum(x)", {"x=[1, 2]"}, "x"}),
              HasSubstr("in all 2 elements\n  cancelled: what its readers give adds up to 0\n"));
  const std::string twice = shown({"sum(x - x)", {"x=[1, 2]"}, "x"});
  EXPECT_EQ(twice.find("dies at 1 sub"), twice.rfind("dies at 1 sub"));
  EXPECT_THAT(shown({"sum(softmax(x))", {"x=[[0, 0]]"}, "x"}),
              HasSubstr("  dies at 1 softmax, cancelled: softmax subtracts what a row's dy have in "
                        "common\n"));
  EXPECT_THAT(shown({"sum(x) + sum(x)", {"x=[1, 2]"}, "x"}), Not(HasSubstr("cancelled")));
}

TEST_F(StudyWhyTest, TheRowWhereAPathDiesHasTheCause) {
  EXPECT_THAT(shown({"sum(detach(x) * y) + sum(x)", chosen, "x"}),
              ::testing::AllOf(HasSubstr("none  1 detach  detached: detach passes no gradient\n"
                                         "      none  x\n"),
                               HasSubstr("one way dies at 1 detach, detached")));
  // An element that no window chooses has its path, too.
  EXPECT_THAT(
      shown({"sum(max_pool2d(reshape(x, [1, 1, 2, 1]), [1, 2]))", positive, "x", 0}),
      HasSubstr("  1  2 max_pool2d  lost maximum: its windows choose other elements in 1 of 1 "
                "(100 %)\n"));
  EXPECT_THAT(shown({"sum(slice(x, 0, 1, 2))", positive, "x", 0}),
              HasSubstr("no path: slice reads other elements in 1 of 1 (100 %)\n"));
  EXPECT_THAT(shown({"sum(x * y)", {"x=const([1])", "y=[2]"}, "x"}),
              HasSubstr("x (1) f32: no gradient\n  frozen: no gradient is asked of it"));
  EXPECT_THAT(shown({"sum(tanh(x) * y)", {"x=const([1])", "y=[2]"}, "x"}),
              HasSubstr("      none  1 tanh\n      none  x\n"));
  // Without layers, their column is left out.
  EXPECT_THAT(shown({"sum(tanh(x))", positive, "x"}),
              HasSubstr("  gradient  operator  lost there\n"));
}

}  // namespace
}  // namespace whisker
