// The grade of an answer, as text.
#pragma once

#include "apps/study/grading/answer_program.h"
#include "apps/study/grading/exercise.h"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct Grade {
  bool passed = false;
  std::vector<std::string> causes;  ///< what is known about the fault
  std::string text;                 ///< lines
};

Grade grade(const Exercise& exercise, std::span<const Problem> problems, const AnswerRun& run);

/// Builds `file` and grades it; what does not compile is wrong.
Grade grade_file(const Exercise& exercise, const std::filesystem::path& file,
                 const std::filesystem::path& course, int seconds = AnswerProgram::run_limit_s);

}  // namespace whisker
