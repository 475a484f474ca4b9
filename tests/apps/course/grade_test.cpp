// Every exercise: what is right is right, each planted wrong answer is rejected and its cause
// named.
#include "apps/study/grading/grade.h"

#include "apps/study/grading/exercises.h"
#include "core/io/file.h"
#include "core/ops/ops.h"
#include "tests/apps/course/planted.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: setenv

namespace whisker {
namespace {

// What an answer in this process makes of problems.
AnswerRun run_here(const Exercise& exercise, std::span<const Problem> problems,
                   const Planted& planted) {
  const std::vector<AnswerParameter> parameters = parameters_of(exercise);
  AnswerRun run;
  for (const Problem& problem : problems) {
    std::vector<std::vector<double>> values(parameters.size());
    std::vector<course::Argument> arguments(parameters.size());
    auto right = problem.right.begin();
    for (size_t i = 0; i < parameters.size(); ++i) {
      course::Argument& one = arguments[i];
      one.is_result = parameters[i].is_result();
      const Tensor x = one.is_result ? (right++)->second : problem.values[parameters[i].name];
      values[i] = x.to_vector();
      if (one.is_result) std::ranges::fill(values[i], 0.0);
      one.values = values[i].data();
      one.rank = x.rank();
      std::ranges::transform(x.shape().extents(), one.extents,
                             [](int64_t extent) { return static_cast<int>(extent); });
      parameters[i].name.copy(one.name, sizeof one.name - 1);
    }
    Outcome outcome;
    try {
      (problem.in_double ? planted.in_double : planted.in_float)(arguments.data());
      for (size_t i = 0; i < parameters.size(); ++i) {
        if (arguments[i].is_result) outcome.results.push_back(values[i]);
      }
    } catch (const course::Stop& reason) {
      outcome.stopped = reason.text;
    }
    run.outcomes.push_back(outcome);
  }
  return run;
}

namespace fs = std::filesystem;
const fs::path course = fs::path(WHISKER_SOURCE_DIR) / "docs/course";

std::string content(const fs::path& file) {
  return read_file(file, size_t{1} << 20, ErrorKind::usage);
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

const std::vector<Planted>& planted_answers() {
  static const std::vector<Planted> planted = [] {
    std::vector<Planted> all;
    for (auto* const plant_some :
         {plant_elementwise, plant_matrix, plant_images, plant_sequences}) {
      plant_some(all);
    }
#ifdef WHISKER_EMULATES_BLOCKS
    plant_gpu(all);
#endif
    return all;
  }();
  return planted;
}

class CourseExercise : public testing::TestWithParam<std::string> {
 protected:
  const Exercise& exercise() const { return find_exercise(GetParam()); }
};

TEST_P(CourseExercise, HasItsFilesAndItsSignature) {
  const fs::path folder = course / "exercises" / GetParam();
  const std::string signature = without_blanks(std::string(exercise().signature));
  for (const fs::path& file :
       {folder / exercise().answer_file, folder / "exercise.md",
        course / "solutions" /
            (GetParam() + fs::path(exercise().answer_file).extension().string())}) {
    // A kernel's own signature is another.
    if (fs::exists(folder / "call.h"))
      EXPECT_NE(content(file), "") << file;
    else
      EXPECT_THAT(without_blanks(content(file)), testing::HasSubstr(signature)) << file;
  }
  EXPECT_THAT(content(folder / "hints.md"),
              testing::AllOf(testing::HasSubstr("\n## 1\n"), testing::HasSubstr("\n## 2\n"),
                             testing::HasSubstr("\n## 3\n")));
}

TEST_P(CourseExercise, WrongAnswersAreRejectedAndNamed) {
#ifndef WHISKER_EMULATES_BLOCKS
  if (exercise().answer_file.ends_with(".cu")) GTEST_SKIP() << "is built without a sanitizer alone";
#endif
  std::optional<AnswerProgram> on_gpu;
  if (exercise().needs_gpu) {
    if (const std::string why = why_no_gpu_answer(); !why.empty()) GTEST_SKIP() << why;
    on_gpu.emplace(exercise(), fs::path(WHISKER_SOURCE_DIR) / "tests/apps/course/planted_cuda.cu",
                   course, BuiltFor::gpu);
    ASSERT_EQ(on_gpu->build_errors(), "");
  }
  const std::vector<Problem> problems = problems_of(exercise());
  for (const Problem& problem : problems) {
    for (const auto& [name, right] : problem.right) {
      EXPECT_GT(sum(right * right).item(), 1e-6) << name << ": a result of zeros would pass";
    }
  }
  int wrong = 0, named = 0;
  bool zeros = false;  // is among them
  for (const Planted& planted : planted_answers()) {
    if (planted.exercise != GetParam()) continue;
    ::setenv("FAULT", std::to_string(planted.number).c_str(), 1);
    const Grade graded =
        grade(exercise(), problems,
              on_gpu ? on_gpu->run(problems) : run_here(exercise(), problems, planted));
    SCOPED_TRACE(fmt::format("number {}\n{}", planted.number, graded.text));
    EXPECT_EQ(graded.passed, planted.number == 0);
    if (planted.number == 0) continue;
    ++wrong;
    named += !planted.cause.empty();
    for (const char* cause : {"0 everywhere", "no thread writes", "as it was"}) {
      zeros = zeros || planted.cause.find(cause) != std::string::npos;
    }
    EXPECT_THAT(fmt::format("{}", fmt::join(graded.causes, "\n")),
                testing::HasSubstr(planted.cause));
  }
  EXPECT_GE(wrong, 5);
  EXPECT_TRUE(zeros);
  EXPECT_GE(named, 0.8 * wrong);
}

INSTANTIATE_TEST_SUITE_P(All, CourseExercise, testing::ValuesIn(exercise_names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace whisker
