// Lines of metrics.jsonl.
#include "train/loop/metrics_log.h"

#include "core/io/json.h"
#include "core/io/run_files.h"
#include "tests/support/temporary_folder.h"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

// In f16 a gradient may overflow, for which there is no number in JSON: the step is skipped, and
// its line goes without a norm.
TEST(MetricsLog, ASkippedStepHasNoGradientNorm) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  LogFile file(path);
  MetricsLog log(&file);
  log.step({.step = 1, .loss = 0.5, .epoch_loss = 0.75, .gradient_norm = 2.0}, 1);
  log.step({.step = 2, .loss = 0.5, .epoch_loss = 0.75}, 2);
  std::ifstream lines(path);
  std::string first, second;
  ASSERT_TRUE(std::getline(lines, first));
  ASSERT_TRUE(std::getline(lines, second));
  EXPECT_EQ(JsonValue::parse(first, {}).at("gradient_norm").as_double(), 2.0);
  const JsonValue skipped = JsonValue::parse(second, {});
  EXPECT_EQ(skipped.find("gradient_norm"), nullptr);
  EXPECT_EQ(skipped.at("loss").as_double(), 0.5);
  EXPECT_EQ(skipped.at("epoch_loss").as_double(), 0.75);
}

TEST(Figures, SmallOnesHaveDigits) {
  EXPECT_EQ(figure_text(0.000012342), "1.234e-05");
  EXPECT_EQ(figure_text(-0.00567891), "-0.005679");
  EXPECT_EQ(figure_text(0.0123), "0.0123");
  EXPECT_EQ(figure_text(0), "0.0000");
}

TEST(Figures, HugeOnesAreShort) {
  EXPECT_EQ(figure_text(451.746), "451.7460");
  EXPECT_EQ(figure_text(-123456789012.5), "-123456789012.5000");
  EXPECT_EQ(figure_text(1.0799428867402102e+157), "1.0799 x 10^157");
}

TEST(MetricsLog, AMetricThatOverflowedIsNull) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "metrics.jsonl";
  LogFile file(path);
  MetricsLog log(&file);
  LanguageMetrics metrics(true);
  metrics.add_loss(800, 10);  // exp(800) is above the largest double
  log.epoch({.val_loss = metrics.loss(), .val_figures = metrics.figures()}, 5, 1);
  log.validation(metrics, true, 0, 5);
  EXPECT_THAT(metrics.line(), testing::HasSubstr("loss 800.0000 perplexity infinite bits"));
  std::ifstream lines(path);
  for (const char* kind : {"epoch", "validation"}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const JsonValue json = JsonValue::parse(line, {});
    EXPECT_EQ(json.at("kind").as_string(), kind);
    EXPECT_TRUE(json.at("val_perplexity").is_null()) << line;
    EXPECT_EQ(json.at("val_loss").as_double(), 800);
    EXPECT_EQ(json.at("val_accuracy").as_double(), 0);
  }
}

}  // namespace
}  // namespace whisker::test
