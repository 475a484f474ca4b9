// Timed choices of algorithms as data: exported, imported, obeyed.
#include "core/backend/backend.h"
#include "core/cpu/cpu_backend.h"
#include "core/error.h"
#include "core/io/json.h"
#include "core/ops/ops.h"
#include "tests/support/error_of.h"

#include <regex>

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

Backend& cpu() {
  return backend_of(cpu_device);
}

void forget_choices() {
  set_cpu_options({.winograd = false});
  set_cpu_options({});
}

std::string other_algorithms(std::string table) {
  table = std::regex_replace(table, std::regex("\"direct\""), "\"?\"");
  table = std::regex_replace(table, std::regex("\"winograd\""), "\"direct\"");
  return std::regex_replace(table, std::regex("\"\\?\""), "\"winograd\"");
}

std::string with_algorithm(const std::string& table, const char* name) {
  return std::regex_replace(table, std::regex("\"(direct|winograd)\""),
                            fmt::format("\"{}\"", name));
}

std::string replaced(std::string table, const char* pattern, const char* by) {
  const std::string changed = std::regex_replace(table, std::regex(pattern), by);
  EXPECT_NE(changed, table) << pattern;
  return changed;
}

/// A convolution for which oneDNN has both algorithms where the processor allows (AVX-512).
class CpuAlgorithms : public ::testing::Test {
 protected:
  void SetUp() override {
    forget_choices();
    convolve();
    timed_ = cpu().export_algorithms();
    if (timed_.empty()) GTEST_SKIP() << "this build or processor has one algorithm only";
  }
  void TearDown() override { forget_choices(); }

  std::vector<double> convolve() const { return conv2d(x_, w_, {}, {.padding = 1}).to_vector(); }

  Tensor x_ = rand_normal({2, 16, 16, 32}, 0, 1, 1, 0);
  Tensor w_ = rand_normal({32, 3, 3, 32}, 0, 1, 1, 1);
  std::string timed_;
};

TEST_F(CpuAlgorithms, ComeBackAsTheyWere) {
  for (const std::string& table : {timed_, other_algorithms(timed_)}) {
    forget_choices();
    EXPECT_EQ(cpu().export_algorithms(), "");
    cpu().import_algorithms(table);
    EXPECT_EQ(cpu().export_algorithms(), table);
    convolve();  // by the table: nothing is timed, nothing changes
    EXPECT_EQ(cpu().export_algorithms(), table);
  }
}

TEST_F(CpuAlgorithms, AreObeyed) {
  cpu().import_algorithms(with_algorithm(timed_, "direct"));
  const auto direct = convolve();
  cpu().import_algorithms(
      with_algorithm(timed_, "winograd"));  // over a plan that is compiled already
  const auto winograd = convolve();
  EXPECT_NE(direct, winograd);
  cpu().import_algorithms(with_algorithm(timed_, "direct"));
  EXPECT_EQ(convolve(), direct);
  set_cpu_options({.winograd = false});
  EXPECT_EQ(convolve(), direct);
}

TEST_F(CpuAlgorithms, OfAnotherEnvironmentAreIgnored) {
  forget_choices();
  cpu().import_algorithms(
      replaced(timed_, "\"library\":\"[^\"]*\"", "\"library\":\"oneDNN 1.0.0\""));
  cpu().import_algorithms(replaced(timed_, "\"isa\":\\d+", "\"isa\":12345"));
  cpu().import_algorithms(replaced(timed_, "\"threads\":\\d+", "\"threads\":4097"));
  cpu().import_algorithms(
      R"({"cudnn":91900,"cublas_lt":130100,"device":"H200","convolutions":{}})");
  EXPECT_EQ(cpu().export_algorithms(), "");
  cpu().import_algorithms("");
  EXPECT_EQ(cpu().export_algorithms(), "");
}

TEST_F(CpuAlgorithms, DamagedOnesAreRefusedAndChangeNothing) {
  const std::string twice =
      replaced(timed_, "(\"convolutions\":\\{)", "$1\"forward x\":\"direct\",");
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("{}"), timed_.substr(0, timed_.size() / 2),
        replaced(timed_, "\"threads\":\\d+", "\"threads\":\"two\""),
        replaced(timed_, "\"convolutions\":\\{.*\\}\\}", "\"convolutions\":3}"),
        replaced(twice, "\"(direct|winograd)\"\\}\\}", "\"fft\"}}"),
        replaced(twice, "\"(direct|winograd)\"\\}\\}", "7}}")}) {
    EXPECT_NE(message_of(ErrorKind::checkpoint, [&] { cpu().import_algorithms(text); }), "no error")
        << text;
    EXPECT_EQ(cpu().export_algorithms(), timed_) << text;
  }
}

TEST_F(CpuAlgorithms, AreNeitherTimedNorTakenWhereTheyHaveNoSay) {
  for (const CpuOptions& options :
       {CpuOptions{.deterministic = true}, CpuOptions{.winograd = false}}) {
    set_cpu_options(options);
    const auto before = convolve();
    EXPECT_EQ(cpu().export_algorithms(), "");
    cpu().import_algorithms(with_algorithm(timed_, "winograd"));
    EXPECT_EQ(cpu().export_algorithms(), "");
    EXPECT_EQ(convolve(), before);
  }
}

TEST_F(CpuAlgorithms, SurviveTheSameOptionsButNotOtherThreads) {
  set_cpu_options({});
  EXPECT_EQ(cpu().export_algorithms(), timed_);
  set_cpu_options({.threads = 3});
  EXPECT_EQ(cpu().export_algorithms(), "");
  convolve();
  EXPECT_EQ(JsonValue::parse(cpu().export_algorithms(), {}).at("threads").as_int(), 3);
}

/// The same with so many channels that Winograd is what the heuristic picks. `limit_` is what the
/// direct convolution needs, which is less than Winograd needs.
class CpuAlgorithmsWithinALimit : public CpuAlgorithms {
 protected:
  void SetUp() override {
    x_ = rand_normal({2, 16, 16, 64}, 0, 1, 1, 0);
    w_ = rand_normal({64, 3, 3, 64}, 0, 1, 1, 1);
    CpuAlgorithms::SetUp();
    if (IsSkipped()) return;
    limit_ = peak_by("direct", direct_);
    ASSERT_LT(limit_, peak_by("winograd", winograd_));
    ASSERT_NE(direct_, winograd_);
    forget_choices();
  }
  void TearDown() override {
    lift();
    CpuAlgorithms::TearDown();
  }

  void limit(int64_t bytes) const { cpu().set_memory_options({.limit_bytes = bytes}); }
  void lift() const { limit(0); }
  int64_t peak_by(const char* algorithm, std::vector<double>& result) const {
    cpu().import_algorithms(with_algorithm(timed_, algorithm));
    cpu().reset_peak();
    result = convolve();
    return cpu().memory_stats().peak;
  }

  int64_t limit_ = 0;
  std::vector<double> direct_, winograd_;
};

TEST_F(CpuAlgorithmsWithinALimit, DirectIsTakenAndNothingWrittenDown) {
  limit(limit_);
  EXPECT_EQ(convolve(), direct_);
  EXPECT_EQ(convolve(), direct_) << "and again";
  EXPECT_EQ(cpu().export_algorithms(), "");
}

TEST_F(CpuAlgorithmsWithinALimit, DirectRunsWhateverTheTableSays) {
  const std::string table = with_algorithm(timed_, "winograd");
  cpu().import_algorithms(table);
  limit(limit_);
  EXPECT_EQ(convolve(), direct_);
  EXPECT_EQ(cpu().export_algorithms(), table) << "which is as right as before";
}

TEST_F(CpuAlgorithmsWithinALimit, DirectIsTakenByPlansMadeBefore) {
  cpu().import_algorithms(with_algorithm(timed_, "winograd"));
  EXPECT_EQ(convolve(), winograd_);
  limit(limit_);
  EXPECT_EQ(convolve(), direct_);
}

// Only when the limit changes is there another choice, of plans in the table and of untimed ones.
TEST_F(CpuAlgorithmsWithinALimit, AnotherLimitTriesAgain) {
  cpu().import_algorithms(with_algorithm(timed_, "winograd"));
  limit(limit_);
  EXPECT_EQ(convolve(), direct_);
  lift();
  EXPECT_EQ(convolve(), winograd_) << "by the table";
  forget_choices();
  limit(limit_);
  EXPECT_EQ(convolve(), direct_);
  lift();
  convolve();
  EXPECT_NE(cpu().export_algorithms(), "") << "timed";
}

TEST_F(CpuAlgorithmsWithinALimit, TooLittleForDirectIsAnError) {
  limit(limit_ - 1);
  EXPECT_THROW(convolve(), OutOfMemory);
  lift();
  convolve();
  EXPECT_NE(cpu().export_algorithms(), "") << "nothing was chosen for want of memory";
}

// What a deterministic run computes does not hang on the memory that is free.
TEST_F(CpuAlgorithmsWithinALimit, DeterministicOnesStayWithTheHeuristic) {
  set_cpu_options({.deterministic = true});
  limit(limit_);
  EXPECT_THROW(convolve(), OutOfMemory);
  lift();
  EXPECT_EQ(convolve(), winograd_);
}

TEST(CpuAlgorithmsElsewhere, ReferenceHasNone) {
  Backend& reference = backend_of(reference_device);
  EXPECT_EQ(reference.export_algorithms(), "");
  reference.import_algorithms("not a table");
}

}  // namespace
}  // namespace whisker::test
