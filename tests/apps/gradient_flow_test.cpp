// study gradient-flow: what stands out is said of planted rows, and nothing of a sound run.
#include "apps/study/gradient_flow.h"

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <cmath>
#include <fstream>
#include <optional>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TensorSummary of_norm(double norm, int64_t zeros = 0) {
  TensorSummary summary{.count = 100};
  summary.statistics.norm = norm;
  summary.statistics.deviation = norm / 10;
  summary.statistics.zeros = zeros;
  summary.statistics.histogram[0] = 100;
  return summary;
}

GradientFlow flow_of_rows(const std::vector<HistogramRow>& rows) {
  const TemporaryFolder folder;
  std::ofstream out(folder / "histograms.jsonl");
  for (const HistogramRow& row : rows) out << row.json() << "\n";
  out.close();
  return GradientFlow::of(folder / "histograms.jsonl", "runs/a");
}

struct PlantedRow {
  double gradient = 1;  // of the first layer; that of the last is 1
  double update = 1e-3;
  int64_t dead_units = 0;
};

GradientFlow flow_of(const std::vector<PlantedRow>& planted) {
  std::vector<HistogramRow> rows;
  for (const PlantedRow& one : planted) {
    HistogramRow row{.step = std::ssize(rows) + 1, .epoch = 1, .examples = 8};
    row.layers = {
        {.layer = "a",
         .op = "linear",
         .activations = of_norm(3, one.dead_units),
         .gradients = of_norm(one.gradient),
         .units = 10,
         .dead_units = one.dead_units},
        {.layer = "b", .op = "linear", .activations = of_norm(3), .gradients = of_norm(1)}};
    row.parameters = {{.name = "a.weight",
                       .weights = of_norm(5),
                       .gradients = of_norm(1),
                       .update_ratio = one.update}};
    rows.push_back(std::move(row));
  }
  return flow_of_rows(rows);
}

TEST(GradientFlow, SaysWhatStandsOut) {
  EXPECT_THAT(flow_of({{}, {}}).findings(), IsEmpty());
  const auto only = [](const PlantedRow& last, const std::string& text) {
    EXPECT_THAT(flow_of({{}, {}, last}).findings(), ElementsAre(HasSubstr(text)));
  };
  only({.gradient = 2e-5},
       "The gradient vanishes on the way back: beside that of b, next to the "
       "loss, it is a (2e-05).");
  only({.gradient = 4e3},
       "explodes on the way back: beside that of b, next to the loss, it is a "
       "(4e+03).");
  only({.gradient = 0}, "No gradient arrives at a (linear) in step 3");
  only({.update = 0.4}, "more than a tenth of the weights' norm: a (0.4 in step 3).");
  only({.update = 1e-8}, "less than a millionth");
  only({.dead_units = 6}, "for the whole batch in step 3: a (6 of 10; 0 in step 1).");
}

LayerHistograms planted_layer(const std::string& name, std::optional<TensorSummary> gradients) {
  return {
      .layer = name, .op = "conv2d", .activations = of_norm(3), .gradients = std::move(gradients)};
}

// Only once they are trained do the first layers run: the others have cached features till then.
TEST(GradientFlow, LayersThatComeLaterStandWhereTheyRun) {
  HistogramRow cached{.step = 1, .epoch = 1}, whole{.step = 2, .epoch = 2};
  cached.layers = {planted_layer("head", of_norm(1))};
  whole.layers = {planted_layer("a", of_norm(1e-5)), planted_layer("head", of_norm(1))};
  whole.layers[0].units = 10;
  whole.layers[0].dead_units = 6;
  const GradientFlow flow = flow_of_rows({cached, whole});
  EXPECT_EQ(flow.layers[0].layer, "a");
  EXPECT_THAT(flow.findings(), ElementsAre(HasSubstr("beside that of head, next to the loss"),
                                           HasSubstr("step 2: a (6 of 10). They get no gradient")));
  EXPECT_THAT(flow_of_rows({whole, {.step = 3, .epoch = 3, .layers = cached.layers}}).text(100),
              Not(HasSubstr("nan")));
}

TEST(GradientFlow, FrozenLayersAndNaNAreNotTakenForGradientsThatDie) {
  HistogramRow row{.step = 1, .epoch = 1};
  row.layers = {planted_layer("a", std::nullopt), planted_layer("b", of_norm(1))};
  EXPECT_THAT(flow_of_rows({row}).findings(),
              ElementsAre(HasSubstr("No gradient is asked of a (conv2d) in step 1")));
  TensorSummary damaged = of_norm(0);
  damaged.statistics.not_finite = damaged.count;
  damaged.statistics.histogram = {};
  row.layers[0].gradients = damaged;
  const GradientFlow flow = flow_of_rows({row});
  EXPECT_THAT(flow.findings(), ElementsAre(HasSubstr("NaN or Inf in step 1: a (100 elements)")));
  EXPECT_TRUE(std::isnan(flow.layers[0].gradient[0]));
}

// A table of all would be far larger than the file.
TEST(GradientFlow, TooManyNamesInTooManyStepsAreRefused) {
  std::vector<HistogramRow> rows = {{.step = 1, .epoch = 1}};
  for (int i = 0; i < 1 << 12; ++i) {
    rows[0].layers.push_back(planted_layer(fmt::format("{}", i), std::nullopt));
  }
  for (int64_t step = 2; step <= (1 << 13) + 1; ++step) rows.push_back({.step = step, .epoch = 1});
  EXPECT_THAT(test::message_of(ErrorKind::data, [&] { flow_of_rows(rows); }),
              HasSubstr("step 8193: expected at most 33554432 layers and parameters in all steps"));
}

TEST(GradientFlow, TrendsAndLines) {
  EXPECT_EQ(trend_of({1}), "");
  EXPECT_EQ(trend_of({1, 1.2, 1}), "steady");
  EXPECT_EQ(trend_of({8, 8, 2, 2, 1, 1}), "falls 8x");
  EXPECT_EQ(trend_of({1, 0, 100}), "rises 100x");
  const GradientFlow flow = flow_of({{.gradient = 1}, {.gradient = 30}, {.gradient = 900}});
  const std::string text = flow.text(100);
  EXPECT_THAT(text, HasSubstr("  a               1  30  900  rises 900x     0.001  0.001    0 %"));
  EXPECT_TRUE(is_gradient_flow_svg(flow.svg()));
  EXPECT_FALSE(is_gradient_flow_svg(flow.svg() + " "));
  EXPECT_TRUE(is_gradient_flow_page(flow.html()));
}

}  // namespace
}  // namespace whisker
