// What is wrong with an answer: compares its results with those of faults that learners make.
#pragma once

#include "apps/study/grading/answer_program.h"
#include "apps/study/grading/exercise.h"

#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Whether two results agree, as far as the answer's type can: relative to the largest element.
/// NaN agrees with nothing.
bool results_agree(std::span<const double> got, std::span<const double> right, bool in_double);

/// One check: a problem that the answer came to.
struct Check {
  const Problem* problem = nullptr;
  const Outcome* outcome = nullptr;
  std::vector<std::vector<double>> right;  ///< of each result, in memory order
  std::vector<bool> agrees;                ///< of each result; empty where it was stopped
  bool is_right() const;
};

std::vector<Check> checks_of(std::span<const Problem> problems, const AnswerRun& run);

/// Sentences, "dw: the sum over the batch is missing"; none where nothing known explains the
/// results.
std::vector<std::string> diagnose(const Exercise& exercise, std::span<const Check> checks);

}  // namespace whisker
