// study's parts below the command line.
#include "apps/gradcheck_operators.h"
#include "apps/gradcheck_report.h"
#include "apps/study_network.h"
#include "core/autograd.h"
#include "core/ops.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

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
  StudyTest() {
    std::string pattern = ::testing::TempDir() + "study-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    std::ofstream(file()) << tiny;
  }
  ~StudyTest() override { std::filesystem::remove_all(folder_); }
  std::string file() const { return (folder_ / "tiny.yaml").string(); }
  std::filesystem::path folder_;
};

std::string message_of(const GradcheckRequest& request) {
  try {
    run_gradcheck(request);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(StudyOperators, EveryGradientAgreesWithFiniteDifferences) {
  const GradcheckReport report = run_gradcheck({.what = "all"});
  EXPECT_TRUE(report.passed) << report.text;
  EXPECT_THAT(report.text, HasSubstr("conv2d"));
}

TEST(StudyOperators, AWrongOperatorIsReported) {
  const GradcheckOperator wrong{"square", {{"x", {2, 2}}}, [](std::span<const Tensor> o) {
                                  const Tensor y = mul(o[0].detach(), o[0].detach());
                                  record("square", {&o[0]}, y, [x = save(o[0])](Gradients& g) {
                                    g.give(0, mul(g.dy(), x(g)));
                                  });
                                  return y;
                                }};
  const auto results = gradcheck_operator(wrong, {});
  const std::vector<std::string> owners = {"square"};
  const GradcheckReport report = gradcheck_report(results, owners, 1e-6);
  EXPECT_FALSE(report.passed);
  EXPECT_THAT(report.text, HasSubstr("WRONG"));
  EXPECT_THAT(report.text, HasSubstr("1 of 1 gradients are wrong (tolerance 1e-06)\n"));
}

TEST(StudyOperators, SlipsGetTheNearestName) {
  EXPECT_EQ(
      message_of({.what = "batchnorm"}),
      "study gradcheck: no operator or file is called 'batchnorm'; did you mean 'batch_norm'?");
  EXPECT_THAT(message_of({.what = "zzz"}), HasSubstr("Operators: all, add, sub, "));
  EXPECT_THAT(message_of({.what = "add", .overrides = {"a.b=1"}}),
              HasSubstr("overrides go with a YAML file, not with an operator"));
}

TEST_F(StudyTest, NetworksAreCheckedParameterByParameter) {
  const GradcheckReport report = run_gradcheck({.what = file(), .elements = 1000});
  EXPECT_TRUE(report.passed) << report.text;
  EXPECT_THAT(report.text, HasSubstr("tiny, (2,12,12,3) f64 on reference, 2 classes"));
  EXPECT_THAT(report.text, HasSubstr("first.weight  (3,3,3,3)    81/81"));
  EXPECT_THAT(report.text, HasSubstr("all 6 gradients agree"));
}

TEST_F(StudyTest, FrozenParametersAreLeftOut) {
  const GradcheckReport report =
      run_gradcheck({.what = file(), .overrides = {"freeze=[first, norm]"}});
  EXPECT_THAT(report.text, HasSubstr("all 2 gradients agree"));
}

TEST_F(StudyTest, TheListingNamesLayersParametersAndPictures) {
  const StudyNetwork network(read_config(file(), {}), {.batch = 3, .classes = 5});
  EXPECT_EQ(network.describe(), "tiny, (3,12,12,3) f32 on cpu, 5 classes");
  TapeListing listing;
  network.run(listing);
  const std::string text = listing.str();
  EXPECT_THAT(text,
              ::testing::ContainsRegex("1  conv2d +first .*images, first.weight, first.bias"));
  EXPECT_THAT(text, ::testing::ContainsRegex("2  batch_norm +norm "));
  EXPECT_THAT(text, ::testing::ContainsRegex("accumulate +head.bias +\\(5\\)"));
}

TEST_F(StudyTest, TheSameLossEveryTime) {
  const StudyNetwork network(read_config(file(), {}), {.batch = 3});
  EXPECT_EQ(network.loss().item(), network.loss().item());
}

TEST_F(StudyTest, ClassesAreTheFoldersOfTheData) {
  for (const char* name : {"ants", "bees", "cats", ".hidden"}) {
    std::filesystem::create_directories(folder_ / "data" / name);
    std::ofstream(folder_ / "data" / name / "1.jpg") << "not read for its class";
  }
  const StudyNetwork network(read_config(file(), {"data.train=" + (folder_ / "data").string()}),
                             {.batch = 1});
  EXPECT_EQ(network.model().output, (Shape{1, 3}));
}

}  // namespace
}  // namespace whisker
