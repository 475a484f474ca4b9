// What single sections of report.html say of runs that are made up here.
#include "core/io/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "train/report/run_report.h"

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string page_of(const TemporaryFolder& folder) {
  return run_report(read_run_record(folder.path()));
}

void write_best_metrics(const TemporaryFolder& folder, std::string_view metrics) {
  write_safetensors(folder / "best.safetensors",
                    {{"epoch", "1"}, {"metrics", std::string(metrics)}}, {});
}

void write_forecast(const TemporaryFolder& folder, std::string_view naive) {
  folder.write("config.yaml",
               "data: {kind: series, train: s.csv, val_split: 0.25, series: {season: 12}}\n");
  folder.write("metrics.jsonl",
               "{\"kind\":\"epoch\",\"epoch\":1,\"step\":5,\"train_loss\":0.7,\"val_loss\":0.6,"
               "\"val_mae\":9,\"best\":true}\n{\"kind\":\"epoch\",\"epoch\":2,\"step\":10,"
               "\"train_loss\":0.5,\"val_loss\":0.7,\"val_mae\":10,\"best\":false}\n");
  write_best_metrics(folder, fmt::format(R"({{"windows":7,"mae":9,"rmse":10{}}})", naive));
}

TEST(ReportSections, TheNaiveForecastIsALineAboveTheCurveOfTheError) {
  const TemporaryFolder folder;
  write_forecast(folder, R"(,"naive":{"mae":36,"rmse":null})");
  const std::string page = page_of(folder);
  EXPECT_THAT(page, HasSubstr("on average (mae; rmse 10.0000), the naive forecast (the last known "
                              "value at the same place of a season of 12 rows) by 36.0000, with "
                              "the weights of epoch 1, the best of 2 "
                              "by mae; trained on an unknown device."));
  EXPECT_THAT(page, HasSubstr(">naive forecast</text>"));
  EXPECT_THAT(page, HasSubstr("<td class=\"value\">0.25: the last rows</td>"));
  write_forecast(folder, "");
  EXPECT_THAT(page_of(folder), Not(HasSubstr("naive")));
}

// Training logs no mae: the one curve of its chart is still that of validation.
TEST(ReportSections, ValidationHasOneColourInAllCharts) {
  const TemporaryFolder folder;
  write_forecast(folder, "");
  const std::string page = page_of(folder);
  const std::string chart = page.substr(page.find(">mae</text>"), 4000);
  const std::string drawn = chart.substr(0, chart.find("</svg>"));
  EXPECT_THAT(drawn, HasSubstr("<polyline class=\"s1\""));
  EXPECT_THAT(drawn, Not(HasSubstr("<polyline class=\"s0\"")));
  EXPECT_THAT(drawn, Not(HasSubstr(">training</text>")));
}

TEST(ReportSections, CommandsAreThoseThatTheRunAllows) {
  const TemporaryFolder folder;
  folder.write("config.yaml", "data: {train: d, val_split: 0.2}\nseed: 3\n");
  std::string page = page_of(folder);  // killed before its first checkpoint
  EXPECT_THAT(page, HasSubstr("0 of ? epochs are done on an unknown device."));
  EXPECT_THAT(page, HasSubstr("Whether the run ended is not known without its log.txt: 0 of ?"));
  EXPECT_THAT(page, HasSubstr("/config.yaml data.train=PATH"));
  EXPECT_THAT(page, HasSubstr("<td class=\"value\">0.2 of each class, chosen by seed=3</td>"));
  EXPECT_THAT(page, Not(HasSubstr("--resume")));
  EXPECT_THAT(page, Not(HasSubstr("whisker evaluate")));
  folder.write("last/state.json", "{\"environment\":{\"device\":\"cpu\",\"ranks\":\"2\"}}");
  page = page_of(folder);
  EXPECT_THAT(page, HasSubstr("where machine, number of ranks (2) and data are the same"));
  EXPECT_THAT(page, HasSubstr("--resume"));
  EXPECT_THAT(page, Not(HasSubstr("whisker evaluate")));
  write_best_metrics(folder, R"({"images":7,"accuracy":1})");
  EXPECT_THAT(page_of(folder), HasSubstr("whisker evaluate"));
}

TEST(ReportSections, TheMeanOfF1SaysWhichClassesItIsOver) {
  const TemporaryFolder folder;
  folder.write("config.yaml", "data: {train: d}\n");
  const auto page = [&](std::string_view third) {
    write_best_metrics(
        folder,
        fmt::format(R"({{"images":7,"accuracy":1,"f1_macro":0.75,"per_class":[{{"name":"x"}},)"
                    R"({{"name":"y"}},{{"name":"z"}}],"confusion":[[3,0,0],[0,3,0],{}]}})",
                    third));
    return page_of(folder);
  };
  EXPECT_THAT(page("[0,0,1]"), HasSubstr("The mean of F1 over the classes: 0.75"));
  EXPECT_THAT(page("[0,0,0]"), HasSubstr("The mean of F1 over the 2 classes that are a label or "
                                         "were predicted (of a class without images it is 0)"));
}

}  // namespace
}  // namespace whisker::test
