// study gradient-flow: what stands out is said of planted rows, and nothing of a sound run.
#include "apps/study/gradient_flow.h"

#include "tests/support/temporary_folder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TensorSummary of_norm(double norm, int64_t zeros = 0) {
  TensorSummary summary{.count = 100};
  summary.statistics.norm = norm;
  summary.statistics.deviation = norm / 10;
  summary.statistics.zeros = zeros;
  summary.statistics.histogram[0] = 100;
  return summary;
}

struct PlantedRow {
  double gradient = 1;  // of the first layer; that of the last is 1
  double update = 1e-3;
  int64_t dead_units = 0;
};

GradientFlow flow_of(const std::vector<PlantedRow>& planted) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "histograms.jsonl";
  std::ofstream out(file);
  int64_t step = 0;
  for (const PlantedRow& one : planted) {
    HistogramRow row{.step = ++step, .epoch = 1, .examples = 8};
    row.layers.push_back({.layer = "a",
                          .op = "linear",
                          .activations = of_norm(3, one.dead_units),
                          .gradients = of_norm(one.gradient),
                          .units = 10,
                          .dead_units = one.dead_units});
    row.layers.push_back(
        {.layer = "b", .op = "linear", .activations = of_norm(3), .gradients = of_norm(1)});
    row.parameters.push_back({.name = "a.weight",
                              .weights = of_norm(5),
                              .gradients = of_norm(1),
                              .update_ratio = one.update});
    out << row.json() << "\n";
  }
  out.close();
  return GradientFlow::of(file, "runs/a");
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
  only({.update = 0.4}, "more than a tenth of the weights' norm in step 3: a (0.4).");
  only({.update = 1e-8}, "less than a millionth");
  only({.dead_units = 6}, "for the whole batch in step 3: a (6 of 10; 0 in step 1).");
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
