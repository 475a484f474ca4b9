// report.html of made-up run folders: what stands in it, and what does not.
#include "train/report/run_report.h"

#include "core/draw/matrix.h"
#include "core/error.h"
#include "core/io/file.h"
#include "core/io/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "train/loop/event_file.h"
#include "train/metrics/validation_examples.h"
#include "train/report/report_writer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
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
  folder.write("config.yaml", "name: old\ndevice: auto\ndata:\n  train: /home/ann/my cats/data\n");
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
  EXPECT_THAT(page, HasSubstr("What the best weights achieved is not known, as best.safetensors is "
                              "missing or cannot be read: 1 of ? epochs"));
  EXPECT_THAT(page, Not(HasSubstr("Nothing has been validated yet")));
  EXPECT_THAT(page, HasSubstr("The run had not ended when this was written: 1 of ? epochs"));
  EXPECT_THAT(page, HasSubstr(" on an unknown device."));
  EXPECT_THAT(page, HasSubstr("last/state.json has none"));
  EXPECT_THAT(page, HasSubstr("No learning rate is drawn"));
  EXPECT_THAT(page, HasSubstr("3 files of …/my_cats are no images"));
  EXPECT_THAT(page, HasSubstr("unreadable: &#39;…/x.png&#39;"));
  EXPECT_THAT(page, Not(HasSubstr("/home")));
  EXPECT_TRUE(is_run_report(page));
}

TEST(RunReport, ARunThatBeganSaysSo) {
  const TemporaryFolder folder;
  folder.write("config.yaml", "model:\n  - dense: 2\n  - relu\n");
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("Nothing has been validated yet: 0 of ? epochs"));
  EXPECT_THAT(page, HasSubstr("<td class=\"value\">- dense: 2\n- relu</td>"));
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
  EXPECT_THAT(page, HasSubstr("Each class against the rest: not known, as a run keeps the five"));
}

TEST(RunReport, AreasOfMoreClassesAreThoseThatTheRunMeasured) {
  const TemporaryFolder folder;
  write_old_run(folder);
  ValidationExamples all = classification(40, 8);
  all.rest_areas = {.roc_auc = 0.75, .average_precision = 0.5, .classes = 7};
  write_validation_examples(folder / "validation.safetensors", all);
  EXPECT_THAT(run_report(read_run_record(folder.path())),
              HasSubstr("Each class against the rest: ROC AUC 0.7500, average precision 0.5000, "
                        "means of 7 classes; without 1 class that no example has."));
  write_validation_examples(folder / "validation.safetensors", classification(40, 4));
  EXPECT_THAT(run_report(read_run_record(folder.path())), HasSubstr("means of 4 classes"));
  write_validation_examples(folder / "validation.safetensors", classification(40, 8));
  EXPECT_THAT(run_report(read_run_record(folder.path())),
              HasSubstr("the version that trained it measured no areas: whisker evaluate runs/"));
}

TEST(RunReport, SaysHowManyClassesOccur) {
  const TemporaryFolder folder;
  write_old_run(folder);
  ValidationExamples all = classification(10, 40);
  all.ranked.assign(all.ranked.size(), 0);
  write_validation_examples(folder / "validation.safetensors", all);
  write_safetensors(folder / "best.safetensors",
                    {{"epoch", "3"}, {"metrics", R"({"images":10,"accuracy":0.1})"}}, {});
  EXPECT_THAT(run_report(read_run_record(folder.path())),
              HasSubstr("of 10 validation images in 10 of the 40 classes are classified right"));
}

TEST(RunReport, MoreClassesThanMemoryHasPairsAreNotCounted) {
  const TemporaryFolder folder;
  write_old_run(folder);
  write_validation_examples(folder / "validation.safetensors", classification(10, 200'000));
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("Not read: validation.safetensors: pairs of 200000 classes are not "
                              "counted, those of 10000 at most"));
  EXPECT_THAT(page, HasSubstr("Expected calibration error"));
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
  EXPECT_THAT(page,
              HasSubstr("Always answering &#39;class 0&#39; (no class is more frequent) would be "
                        "right for 50.0 %."));
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

// Any bytes are drawn, or named as damaged.
TEST(RunReport, NoBytesOfValidationExamplesBreakIt) {
  const TemporaryFolder folder;
  write_old_run(folder);
  const std::filesystem::path file = folder / "validation.safetensors";
  const auto mutate = [&](const ValidationExamples& examples, unsigned seed) {
    write_validation_examples(file, examples);
    const std::string good = read_file(file, 1 << 20, ErrorKind::checkpoint);
    std::mt19937 random(seed);
    const auto below = [&](size_t count) { return random() % count; };
    constexpr std::string_view odd[] = {
        "0", "9", "-1", "[", "\"", "null", "\xff\xff\xff\x7f", std::string_view("\0\0\xc0\x7f", 4)};
    int drawn = 0;
    for (int round = 0; round < 300; ++round) {
      std::string bytes = good;
      for (size_t changes = 1 + below(3); changes > 0; --changes) {
        const std::string_view by = odd[below(std::size(odd))];
        // Half of the changes in the header, a file's smaller part.
        const size_t at =
            below(round % 2 == 0 ? std::min<size_t>(600, bytes.size()) : bytes.size());
        bytes.replace(at, std::min(by.size(), bytes.size() - at), by);
      }
      if (below(8) == 0) bytes.resize(below(bytes.size()));
      std::filesystem::remove(file);  // a file that is cut and written again waits for the disk
      std::ofstream(file, std::ios::binary) << bytes;
      const RunRecord run = read_run_record(folder.path());
      EXPECT_EQ(run.problems.empty(), run.validation.has_value());
      EXPECT_TRUE(is_run_report(run_report(run)));
      drawn += run.validation.has_value();
    }
    EXPECT_GT(drawn, 10);
  };
  mutate(classification(12, 3), 1);
  mutate(classification(9, 2), 2);
  folder.write("config.yaml", "data: {kind: series}\n");
  mutate({.of = "windows",
          .epoch = 1,
          .targets = {"load"},
          .horizon = 2,
          .predictions = {1, 2, 3, 4, 5, 6},
          .truths = {2, 3, 4, 5, 6, 7}},
         3);
}

TEST(RunReport, ExamplesOfAnotherKindOfRunAreNotDrawn) {
  const TemporaryFolder folder;
  write_old_run(folder);
  write_validation_examples(folder / "validation.safetensors", {.of = "windows",
                                                                .targets = {"load"},
                                                                .horizon = 1,
                                                                .predictions = {1, 2},
                                                                .truths = {2, 3}});
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("Not read: validation.safetensors: expected examples of data.kind "
                              "images, got windows"));
}

TEST(RunReport, FiguresOfOtherWeightsAreNotMixed) {
  const TemporaryFolder folder;
  write_old_run(folder);
  write_validation_examples(folder / "validation.safetensors", classification(40, 2));  // epoch 3
  const auto write_best = [&](const char* epoch) {
    write_safetensors(
        folder / "best.safetensors",
        {{"epoch", epoch},
         {"metrics", R"({"images":7,"accuracy":1,"per_class":[{"name":"x"},{"name":"y"}],)"
                     R"("confusion":[[3,0],[0,4]],"precision":"f32"})"}},
        {});
  };
  write_best("3");
  EXPECT_THAT(run_report(read_run_record(folder.path())), HasSubstr("Area under the ROC curve"));
  write_best("5");
  const std::string page = run_report(read_run_record(folder.path()));
  EXPECT_THAT(page, HasSubstr("Not read: validation.safetensors: it is of epoch 3, "
                              "best.safetensors of epoch 5"));
  EXPECT_THAT(page, HasSubstr("<td>x</td><td class=\"number\">3</td>"));
  EXPECT_THAT(page, Not(HasSubstr("Area under the ROC curve")));
  EXPECT_THAT(page, Not(HasSubstr("Expected calibration error")));
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

TEST(RunReport, WarningsStandBesideTheFiguresThatTheyLimit) {
  const TemporaryFolder folder;
  write_old_run(folder);
  folder.write("log.txt", "run: 3 texts\n  warning: 2 of <3> texts trained, too\n  note: 1\n");
  const std::string page = run_report(read_run_record(folder.path()));
  const size_t said =
      page.find("<p class=\"problem\">Warning: 2 of &lt;3&gt; texts trained, too</p>");
  EXPECT_LT(said, page.find("<nav"));
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

TEST(RunLog, DatesOfItsSessions) {
  const RunDates dates = dates_of_run(
      "run: 3 images\nbegan 2026-11-28 08:45:28 +01:00\nepoch 1/2\nresumed 2026-11-29 07:00:00 "
      "+01:00\n"
      "continues at epoch 2, step 3\nresumed 2026-11-30 07:00:00 +01:00\nnothing to do: done\n");
  EXPECT_EQ(dates.began, "2026-11-28 08:45:28 +01:00");
  EXPECT_THAT(dates.resumed,
              testing::ElementsAre("2026-11-29 07:00:00 +01:00, at epoch 2, step 3"));
  for (const char* edited : {"began yesterday", "began 2026-11-28 08:45:28 +01:00, or later",
                             "began 2026-11-28 08:45", "began 2026-11-28T08:45:28 +01:00"}) {
    EXPECT_EQ(dates_of_run(edited).began, "") << edited;
  }
  EXPECT_EQ(dates_of_run("began 2026-11-28 08:45:28 -03:30").began, "2026-11-28 08:45:28 -03:30");
}

TEST(RunReport, SaysWhenTheRunBegan) {
  const TemporaryFolder folder;
  write_old_run(folder);
  const auto page = [&] { return run_report(read_run_record(folder.path())); };
  EXPECT_THAT(page(), HasSubstr("When the run began is not known: log.txt has no date of it"));
  EventFile(folder / "tensorboard", 1);
  EXPECT_THAT(page(),
              testing::ContainsRegex("first file in its folder is of 20[0-9-]+ [0-9:]+ \\+00:00"));
  folder.write("log.txt",
               "run: 3\nbegan 2026-11-28 08:45:28 +01:00\nresumed 2026-11-29 09:00:00 +01:00\n"
               "continues at epoch 1, step 1\n");
  EXPECT_THAT(page(), HasSubstr("The run began on 2026-11-28 08:45:28 +01:00. It was resumed on "
                                "2026-11-29 09:00:00 +01:00, at epoch 1, step 1."));
  EXPECT_THAT(page(), Not(HasSubstr("TensorBoard")));
}

TEST(RunLog, EndsAndResumes) {
  EXPECT_EQ(how_it_ended("epoch 1/1  x\nfinished after 1 s\nreport: x\n"), "finished after 1 s");
  EXPECT_EQ(how_it_ended("epoch 1/1  x\nerror: it diverged. Try less.\n"),
            "error: it diverged. Try less.");
  EXPECT_EQ(how_it_ended("finished after 1 s\ncontinues at epoch 2, step 3\nepoch 2/3\n"), "");
  EXPECT_EQ(
      told_of_run("run: 3 images\n  note\n\nvalidation after epoch 1:\n  table\n\n  more\n"
                  "unreadable: x\n  note\nrun: 3 images\n  note\n  new\nnothing to do: done\n"),
      "run: 3 images\n  note\nunreadable: x\n  note\n  new\n");
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
