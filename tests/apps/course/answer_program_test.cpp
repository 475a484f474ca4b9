// Answers that are built with g++ and run in a process: right, broken, endless, too large.
#include "apps/study/grading/answer_program.h"

#include "apps/study/grading/exercises.h"
#include "apps/study/grading/grade.h"
#include "core/io/file.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path course_of_sources =
    std::filesystem::path(WHISKER_SOURCE_DIR) / "docs/course";

class AnswerProgramTest : public testing::Test {
 protected:
  // The grade of mul_backward() with this body.
  Grade graded(const std::string& body, int seconds = AnswerProgram::run_limit_s) {
    std::ofstream(file_) << "#include \"course.h\"\nusing course::View;\ntemplate <class T>\n"
                            "void mul_backward(View<const T> dy, View<const T> a, View<const T> b, "
                            "View<T> da, View<T> db) {\n"
                         << body << "\n}\n";
    return grade_file(find_exercise("mul"), file_, course_of_sources, seconds);
  }

  std::string cause(const std::string& body, int seconds = AnswerProgram::run_limit_s) {
    return graded(body, seconds).causes.at(0);
  }

  TemporaryFolder scratch_;
  std::filesystem::path file_ = scratch_ / "mul.cpp";
};

TEST_F(AnswerProgramTest, TheSolutionIsRight) {
  const Grade grade =
      grade_file(find_exercise("mul"), course_of_sources / "solutions/mul.cpp", course_of_sources);
  EXPECT_TRUE(grade.passed) << grade.text;
  EXPECT_THAT(grade.text, HasSubstr("right, in 8 checks"));
}

TEST_F(AnswerProgramTest, WhatDoesNotCompileShowsTheLineAndTheSignature) {
  EXPECT_THAT(graded("  da[0] = ;").text, AllOf(HasSubstr("mul.cpp:5:11: error"),
                                                HasSubstr("void mul_backward(View<const T>")));
}

TEST_F(AnswerProgramTest, AnErrorOfTheCompilerIsSaidOnceWithWhatToWrite) {
  const std::string text = graded("  da[0] = dy[0]^2;\n  db = dy * a;").text;
  EXPECT_THAT(text, AllOf(HasSubstr("mul.cpp:5:16: error"), HasSubstr("y is y * y"),
                          HasSubstr("x[k] is its k-th element"),
                          Not(HasSubstr("In instantiation of")), Not(HasSubstr("float"))));
  EXPECT_THAT(graded("  if (true) {").text,
              AllOf(HasSubstr("A } is missing in the answer"), Not(HasSubstr("warning"))));
  EXPECT_THAT(graded("  switch (1) { case 1: int k = 1; break; case 2: break; }").text,
              HasSubstr("needs braces"));
}

TEST_F(AnswerProgramTest, AnEngineDoesNotTakeTanhOfANumberForARow) {
  std::string answer = read_file(course_of_sources / "exercises/scalar_engine/answer.cpp", 1 << 20,
                                 ErrorKind::usage);
  answer.insert(answer.rfind("// Fill in: y.value"), "rows[y.a].gradient += tanh(y.value);");
  std::ofstream(file_) << answer;
  EXPECT_THAT(grade_file(find_exercise("scalar_engine"), file_, course_of_sources).text,
              HasSubstr("use of deleted function"));
}

TEST_F(AnswerProgramTest, WhatEndsTheProcessIsSaid) {
  EXPECT_THAT(cause("  volatile int* p = nullptr; *p = 1;"), HasSubstr("segmentation fault"));
  EXPECT_THAT(cause("  da(0, 0, 0) = 1;"),
              HasSubstr("an element of da: expected as many indices as axes, 1, got 3"));
  EXPECT_THAT(cause("  da.data[da.count()] = 1;"),
              HasSubstr("elements before or behind da were written to"));
  EXPECT_THAT(cause("  double* volatile p = new double[1 << 28]; da[0] = *p;"),
              HasSubstr("asked for more than 1 GiB"));
  EXPECT_THAT(cause("  for (volatile int k = 0; k < 1;) {}", 1),
              HasSubstr("still running after 1 s"));
}

TEST_F(AnswerProgramTest, WhatItPrintsIsShown) {
  EXPECT_THAT(graded("  std::printf(\"dy[0] is %d\\n\", 7);").text, HasSubstr("dy[0] is 7"));
}

#ifdef WHISKER_EMULATES_BLOCKS
TEST_F(AnswerProgramTest, AKernelRunsOnAnEmulatedBlockAndItsFaultHasALine) {
  const Exercise& exercise = find_exercise("vector_add");
  const Grade right =
      grade_file(exercise, course_of_sources / "solutions/vector_add.cu", course_of_sources);
  EXPECT_TRUE(right.passed) << right.text;
  EXPECT_THAT(right.text, HasSubstr("on an emulated block"));
  std::ofstream(scratch_ / "vector_add.cu")
      << "#include \"gpu/gpu.h\"\n\n"
         "__global__ void vector_add(const float* a, const float* b, float* sum, int n) {\n"
         "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
         "  sum[i] = a[i] + b[i];\n}\n";
  const Grade wrong = grade_file(exercise, scratch_ / "vector_add.cu", course_of_sources);
  EXPECT_FALSE(wrong.passed);
  EXPECT_THAT(wrong.text, HasSubstr("reads a[1], line 5, but a has 1 element:"));
}
#endif

TEST_F(AnswerProgramTest, WhatNeedsAGpuSaysSo) {
  if (why_no_gpu_answer().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_THAT(test::message_of(
                  ErrorKind::device,
                  [&] { grade_file(find_exercise("tensor_cores"), file_, course_of_sources); }),
              AllOf(HasSubstr("tensor_cores needs nvcc and a GPU"), Not(HasSubstr("device="))));
}

}  // namespace
}  // namespace whisker
