// The program as a person runs it: exit codes, and docs/guide/study.md, whose commands
// must print what the page shows.
#include "tests/support/temporary_folder.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

namespace {

using ::testing::HasSubstr;

struct Result {
  int exit_code = -1;
  std::string output;
};

// Runs a bash command in the source folder, with the program under test as `whisker`.
Result run(const std::string& command) {
  const std::string script =
      "cd '" WHISKER_SOURCE_DIR "'; PATH='" WHISKER_PROGRAM_DIR "':$PATH; " + command;
  setenv("SCRIPT", script.c_str(), 1);
  FILE* pipe = popen("bash -c \"$SCRIPT\"", "r");
  Result result;
  std::array<char, 4096> buffer{};
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    result.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

// Times, the machine, and the column widths that follow from them, made alike.
std::string masked(std::string text) {
  text = std::regex_replace(text, std::regex("[0-9]+\\.[0-9]{3}(\\s|$)"), "T$1");
  text = std::regex_replace(text, std::regex("[0-9.]+e-[0-9]+  ok"), "E  ok");
  // Where the example data are, they have as many classes.
  text = std::regex_replace(text, std::regex("study: assumed, with nothing at data[^\n]+\n"), "");
  text = std::regex_replace(text, std::regex("-{2,}"), "-");
  return std::regex_replace(text, std::regex("[ ]+"), " ");
}

TEST(StudyPage, ShowsWhatTheCommandsPrint) {
  std::ifstream page(WHISKER_SOURCE_DIR "/docs/guide/study.md");
  ASSERT_TRUE(page);
  std::string line, command, expected;
  int examples = 0;
  const auto compare = [&] {
    if (command.empty()) return;
    ++examples;
    EXPECT_EQ(masked(run(command + " 2>&1").output), masked(expected)) << command;
    command.clear();
    expected.clear();
  };
  bool inside = false;
  while (std::getline(page, line)) {
    if (line.starts_with("```")) {
      compare();
      inside = line == "```console";
    } else if (inside && line.starts_with("$ ")) {
      compare();
      command = line.substr(2);
    } else if (inside) {
      expected += line + "\n";
    }
  }
  EXPECT_GE(examples, 4);
}

// NVML is found before any other; what the program needs besides stays where it is.
const std::string fake_nvml =
    "LD_LIBRARY_PATH=$(dirname '" WHISKER_FAKE_NVML "')${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ";

TEST(Program, WatchesGpusUntilCtrlC) {
  // In the foreground: else the group gets the signal as well, and a second one ends at once.
  const std::string watched = fake_nvml + "timeout --foreground -s INT --preserve-status 2 ";
  const Result csv = run(watched + "whisker devices --watch 0.05 --csv");
  EXPECT_EQ(csv.exit_code, 0) << csv.output;
  EXPECT_EQ(csv.output.find("time,index,name,"), 0u) << csv.output;
  EXPECT_GE(std::count(csv.output.begin(), csv.output.end(), '\n'), 5) << "two samples at least";
  const Result json = run(watched + "whisker devices --watch --json");
  EXPECT_EQ(json.exit_code, 0) << json.output;
  EXPECT_EQ(json.output.find("{\"schema_version\":1,"), 0u) << json.output;
}

TEST(Program, WatchWithoutNvmlIsADeviceError) {
  const Result broken =
      run("WHISKER_FAKE_NVML=broken " + fake_nvml + "whisker devices --watch 2>&1");
  EXPECT_EQ(broken.exit_code, 5);
  EXPECT_THAT(broken.output, HasSubstr("Driver Not Loaded"));
  EXPECT_EQ(run("whisker devices --csv 2>&1").exit_code, 2);
}

TEST(Program, TheCheckTimesDevicesAndSaysWhetherTheGpuIsUsed) {
  const Result checked = run("whisker devices --check");
  EXPECT_EQ(checked.exit_code, 0);
  for (const char* part : {"timing\n", "matmul 1024x1024x1024", "memory of cpu: ", "the GPU is "}) {
    EXPECT_THAT(checked.output, HasSubstr(part));
  }
}

TEST(Program, GraphsAreWrittenToFiles) {
  const whisker::TemporaryFolder folder;
  const std::string svg = (folder / "tape.svg").string();
  EXPECT_EQ(run("whisker study graph configs/keras_cats_vs_dogs.yaml -o " + svg).exit_code, 0);
  std::ifstream file(svg);
  std::string first;
  std::getline(file, first);
  EXPECT_THAT(first, HasSubstr("<svg xmlns="));
  const Result bad =
      run("whisker study graph configs/keras_cats_vs_dogs.yaml -o " + svg + ".png 2>&1");
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.output, HasSubstr("-o: expected a name ending in .html, .svg, .dot or .mmd"));
  EXPECT_THAT(run("whisker study graph configs/keras_cats_vs_dogs.yaml").output,
              HasSubstr("digraph tape {"));
}

TEST(Program, TheSummarySaysWhichImagesItIsOf) {
  const std::string command = "whisker summary configs/cats_vs_dogs.yaml data.image_size=128 ";
  const Result two = run(command + "data.train_image_size=112");
  EXPECT_EQ(two.exit_code, 0);
  EXPECT_THAT(two.output, HasSubstr("(32,112,112,3)"));
  EXPECT_THAT(two.output, HasSubstr("training 112 px"));
  EXPECT_THAT(two.output, HasSubstr("validation 128 px"));
  for (const char* one : {"", "data.train_image_size=128"}) {
    EXPECT_THAT(run(command + one).output, ::testing::Not(HasSubstr(" px"))) << one;
  }
}

TEST(Program, TheSummaryRefusesANetworkForOneOfTwoSizes) {
  const std::string command =
      "whisker summary configs/mnist.yaml data.image_size=32 "
      "'model={layers: [flatten, {dense: classes}]}' ";
  EXPECT_EQ(run(command).exit_code, 0);
  const Result two = run(command + "data.train_image_size=16 2>&1");
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.output, HasSubstr("data.train_image_size: 16 fits the network, but not images "
                                    "of data.image_size 32"));
}

TEST(Program, BenchCountsExamplesOfEveryKind) {
  const whisker::TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    std::string lines;
    for (int i = 0; i < 10; ++i) lines += fmt::format("word {}\n", name);
    folder.write(fmt::format("words/{}.txt", name), lines);
  }
  std::ofstream(folder / "words.yaml")
      << "name: words\ndevice: cpu\ndata: {kind: text, train: " << (folder / "words").string()
      << ", val_split: 0.2}\nmodel:\n"
         "  layers: [{embedding: {input_dim: vocabulary, output_dim: 4}}, {lstm: {units: 4}}]\n"
         "  head: [{dense: {units: classes}}]\ntrain: {batch_size: 8}\n";
  const std::string command = "whisker bench --steps 3 " + (folder / "words.yaml").string();
  const Result text = run(command + " 2>&1");
  EXPECT_EQ(text.exit_code, 0) << text.output;
  EXPECT_THAT(text.output, HasSubstr(" examples/s\n"));
  EXPECT_THAT(text.output, testing::Not(HasSubstr("image")));
  EXPECT_THAT(run(command + " --json").output,
              HasSubstr("\"images_per_s\":"));  // docs/reference/formats.md
}

TEST(Program, UnknownOperatorsExitWithTwo) {
  EXPECT_EQ(run("whisker study gradcheck conv3d 2>/dev/null").exit_code, 2);
  EXPECT_EQ(run("whisker study gradcheck relu --tolerance 1e-30").exit_code, 1);
  EXPECT_EQ(run("whisker study gradcheck relu").exit_code, 0);
}

TEST(Program, DevicesAndVersion) {
  EXPECT_THAT(run("whisker version").output, ::testing::StartsWith("whisker "));
  const Result check = run("whisker devices --check --json");
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_THAT(check.output, HasSubstr("\"schema_version\":1"));
  EXPECT_THAT(check.output, HasSubstr("\"op\":\"conv2d\""));
  EXPECT_EQ(run("whisker version > /dev/full 2>/dev/null").exit_code, 6);
}

// Convolutions and products are wrong, softmax is not; the program says so and exits with 5.
TEST(Program, AWrongDeviceExitsWithFive) {
  const std::string broken =
      "ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD='" WHISKER_WRONG_LIBRARY "' whisker ";
  const Result text = run(broken + "devices --check 2>&1");
  EXPECT_EQ(text.exit_code, 5);
  EXPECT_THAT(text.output, HasSubstr("WRONG"));
  EXPECT_THAT(text.output,
              HasSubstr("whisker: error: devices: cpu computes conv2d wrongly: error"));
  const Result json = run(broken + "devices --check --json 2>/dev/null");
  EXPECT_EQ(json.exit_code, 5);
  EXPECT_THAT(json.output, HasSubstr("\"passed\":false"));
  EXPECT_THAT(json.output, HasSubstr("\"passed\":true"));
  EXPECT_EQ(run(broken + "devices").exit_code, 0);  // nothing is computed, nothing is found
}

}  // namespace
