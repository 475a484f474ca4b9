// report.html of made-up run folders: what stands in it, and what does not.
#include "train/report/run_report.h"

#include "core/draw/matrix.h"
#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/metrics/validation_examples.h"
#include "train/report/report_writer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view hostile =
    "</script><img src=http://localhost/x onerror=alert(1)>\"'&\x1b[2J\xe2\x80\xae";

// Of an older version: no examples, no environment, no learning rate.
void write_old_run(const TemporaryFolder& folder) {
  folder.write("config.yaml", "name: old\ndata:\n  train: /home/ann/my cats/data\n");
  folder.write("log.txt",
               "runs/old: 40 training and 10 validation images in 2 classes; cpu\n"
               "  3 files of /home/ann/my_cats are no images, such as a.txt\n"
               "epoch 1/2  train loss 0.7 accuracy 0.4\n  val loss 0.6 accuracy 0.5\n"
               "unreadable: '/home/ann/my cats/x.png': truncated\n");
  folder.write(
      "metrics.jsonl",
      "{\"kind\":\"epoch\",\"epoch\":1,\"step\":5,\"train_loss\":0.7,\"train_accuracy\":0.4,"
      "\"val_loss\":null,\"val_accuracy\":0.5,\"best\":true,\"seconds\":2}\n{\"kind\":\"ep");
}

ValidationExamples classification(int64_t count, int64_t classes) {
  ValidationExamples all{.of = "images", .epoch = 3, .ranks = std::min<int64_t>(5, classes)};
  for (int64_t i = 0; i < classes; ++i) all.classes.push_back(fmt::format("class {}", i));
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<int32_t>(i % classes);
    all.labels.push_back(label);
    for (int64_t k = 0; k < all.ranks; ++k) {
      const int64_t other = (label + k + (i % 3 == 0 ? i % 7 : 0)) % classes;
      all.ranked.push_back(static_cast<int32_t>(other));
      all.probabilities.push_back(k == 0 ? 0.6f : 0.1f);
    }
    all.losses.push_back(static_cast<float>(i % 11));
    all.paths.push_back(
        fmt::format("{}/image number {:06}.jpg", all.classes[static_cast<size_t>(label)], i));
  }
  return all;
}

TEST(RunReport, AnOlderRunSaysWhatItLacks) {
  const TemporaryFolder folder;
  write_old_run(folder);
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("Nothing has been validated yet"));
  EXPECT_THAT(page, HasSubstr("The run had not ended when this was written: 1 of ? epochs"));
  EXPECT_THAT(page, HasSubstr("last/state.json has none"));
  EXPECT_THAT(page, HasSubstr("No learning rate is drawn"));
  EXPECT_THAT(page, HasSubstr("3 files of …/my_cats are no images"));
  EXPECT_THAT(page, HasSubstr("unreadable: &#39;…/x.png&#39;"));
  EXPECT_THAT(page, Not(HasSubstr("/home")));
  EXPECT_TRUE(is_run_report(page));
}

TEST(RunReport, ManyClassesAndImagesStaySmall) {
  const TemporaryFolder folder;
  write_old_run(folder);
  write_validation_examples(folder / "validation.safetensors", classification(50'000, 1000));
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_LT(page.size(), 3'000'000U);
  EXPECT_THAT(page, HasSubstr("1,000 classes are too many for a matrix"));
  EXPECT_THAT(page, HasSubstr("All 1,000 classes"));
  EXPECT_THAT(page, HasSubstr("The 20 most frequent of"));
  EXPECT_THAT(page, HasSubstr("Expected calibration error"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"roc\"")));
}

TEST(RunReport, TwoClassesHaveThresholds) {
  const TemporaryFolder folder;
  write_old_run(folder);
  write_validation_examples(folder / "validation.safetensors", classification(40, 2));
  folder.write("last/state.json",
               "{\"seconds\":90,\"environment\":{\"device\":\"cuda\",\"name\":\"NVIDIA H100\","
               "\"ranks\":\"2\"}}");
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("after 1 min 30 s on 2 ranks, each on cuda (NVIDIA H100)."));
  EXPECT_THAT(page, HasSubstr("Area under the ROC curve"));
  EXPECT_THAT(page, HasSubstr("The threshold that a precision needs"));
  EXPECT_THAT(page, HasSubstr("no threshold reaches it"));
  EXPECT_THAT(page, HasSubstr("<p class=\"path\">class 1/image number"));
}

TEST(RunReport, ForecastsAreDrawnOverTheTruth) {
  const TemporaryFolder folder;
  write_old_run(folder);
  folder.write("config.yaml", "data: {kind: series}\n");
  ValidationExamples all{.of = "windows", .epoch = 1, .targets = {"load", "<b>"}, .horizon = 2};
  for (int i = 0; i < 40; ++i) {
    all.truths.push_back(static_cast<float>(i));
    all.predictions.push_back(static_cast<float>(i + 1));
  }
  write_validation_examples(folder / "validation.safetensors", all);
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("the last of 2 steps"));
  EXPECT_THAT(page, HasSubstr(">&lt;b&gt;</text>"));
  EXPECT_THAT(page, Not(HasSubstr("Confusion matrix")));
}

TEST(RunReport, HostileNamesStayText) {
  const TemporaryFolder folder;
  write_old_run(folder);
  ValidationExamples all = classification(40, 3);
  for (std::string& name : all.classes) name += hostile;
  for (std::string& path : all.paths) path = "a/" + std::string(hostile);
  write_validation_examples(folder / "validation.safetensors", all);
  folder.write("log.txt", std::string(hostile) + "\n");
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, Not(HasSubstr("<img src=http")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  EXPECT_THAT(page, Not(HasSubstr("\xe2\x80\xae")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img"));
}

TEST(RunReport, DamagedFilesAreNamedAndTheRestIsShown) {
  const TemporaryFolder folder;
  write_old_run(folder);
  for (const char* name :
       {"validation.safetensors", "examples.safetensors", "best.safetensors", "last/state.json"}) {
    folder.write(name, "not what it should be");
  }
  const std::string page = run_report(read_run_record(folder.path()));
  for (const char* name :
       {"validation.safetensors", "examples.safetensors", "best.safetensors", "state.json"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("Not read: {}", name)));
  }
  EXPECT_THAT(page, HasSubstr("<h2 id=\"curves\">"));
  EXPECT_THAT(page, Not(HasSubstr(folder.path().string())));
}

TEST(RunReport, AnEditedOneIsKept) {
  const TemporaryFolder folder;
  write_old_run(folder);
  const auto page = folder / "report.html";
  write_run_report(folder.path(), page);
  write_run_report(folder.path(), page);
  std::ofstream(page, std::ios::app) << "<p>mine</p>";
  EXPECT_THROW(write_run_report(folder.path(), page), Error);
  write_run_report(folder.path(), page, true);
  EXPECT_THROW(read_run_record(folder / "nothing"), Error);
}

TEST(RunReport, IsDrawnAfterAnEpochWhereItTakesOnePercentOfTheTime) {
  const TemporaryFolder folder;
  write_old_run(folder);
  ReportWriter writer(folder.path());
  writer.update();
  EXPECT_TRUE(std::filesystem::remove(folder / "report.html"));
  writer.update();  // at once: that would be half of the time
  EXPECT_FALSE(std::filesystem::exists(folder / "report.html"));
  EXPECT_EQ(writer.finish(), "report: " + (folder / "report.html").string());
  EXPECT_TRUE(std::filesystem::exists(folder / "report.html"));
  folder.write("report.html", "mine");
  EXPECT_THAT(writer.finish([] { fail(ErrorKind::disk, "full"); }),
              HasSubstr("the report was not written: "));
}

TEST(RunReport, ThousandsOfMessagesAreCut) {
  const TemporaryFolder folder;
  write_old_run(folder);
  std::string log;
  for (int i = 0; i < 500; ++i) log += fmt::format("unreadable: {}.png\n", i);
  folder.write("log.txt", log);
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("unreadable: 199.png\nand 300 more lines, in log.txt"));
}

TEST(RunLog, PathsLoseTheirFolders) {
  EXPECT_EQ(without_folders("a: '/home/ann b/c d/x.png', /tmp/y/: 1/2 and/or ~/z"),
            "a: '…/x.png', …/y: 1/2 and/or …/z");
  EXPECT_EQ(without_folders("train: \"/data/cats\"\ncsv: /l.csv"),
            "train: \"…/cats\"\ncsv: …/l.csv");
  EXPECT_EQ(without_folders("https://a.org/b 5 / 6"), "https://a.org/b 5 / 6");
}

TEST(RunLog, EndsAndResumes) {
  EXPECT_EQ(how_it_ended("epoch 1/1  x\nfinished after 1 s\nreport: x\n"), "finished after 1 s");
  EXPECT_EQ(how_it_ended("finished after 1 s\ncontinues at epoch 2, step 3\nepoch 2/3\n"), "");
  EXPECT_EQ(told_of_run("run: 3 images\n  note\n\nvalidation after epoch 1:\n  table\n\n  more\n"
                        "unreadable: x\n"),
            "run: 3 images\n  note\nunreadable: x\n");
}

TEST(Matrix, CellsOfAShadeAreOnePathAndZerosNone) {
  const std::string two =
      matrix_svg({.title = "t", .classes = {"<a>", "b"}, .counts = {3, 1, 0, 5}});
  EXPECT_THAT(two, HasSubstr("&lt;a&gt;"));
  EXPECT_THAT(two, HasSubstr(">3</text>"));
  EXPECT_THAT(two, Not(HasSubstr(">0</text>")));
  Matrix many{.title = "t", .classes = {}, .counts = std::vector<int64_t>(200 * 200, 7)};
  for (int i = 0; i < 200; ++i) many.classes.push_back(fmt::format("class {}", i));
  const std::string svg = matrix_svg(many);
  EXPECT_LT(svg.size(), 1'000'000U);
  EXPECT_THAT(svg, HasSubstr(">20</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("class 19<")));
  EXPECT_THROW(matrix_svg({.title = "t", .classes = {"a"}, .counts = {}}), Error);
}

}  // namespace
}  // namespace whisker::test
