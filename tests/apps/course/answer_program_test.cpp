// Answers that are built with g++ and run in a process: right, broken, endless, too large.
#include "apps/study/grading/answer_program.h"

#include "apps/study/grading/exercises.h"
#include "apps/study/grading/grade.h"
#include "tests/support/temporary_folder.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

}  // namespace
}  // namespace whisker
