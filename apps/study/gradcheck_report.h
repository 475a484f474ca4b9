// What `whisker study gradcheck` checks and prints.
#pragma once

#include "apps/study/study_network.h"
#include "core/autograd/gradcheck.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

struct OperatorRow;

struct GradcheckRequest {
  std::string what;  ///< a row of operator_table() with operands, "all", a file, or a preset
  std::vector<std::string> overrides = {};  ///< for a configuration file
  std::optional<Config> config = {};        ///< of a preset; else that of the file
  StudyOptions network = {};
  int64_t elements = 0;  ///< per tensor; 0: all of an operator's, 3 of a network's
  double tolerance = 1e-6;
};

struct GradcheckReport {
  std::string text;  ///< a table and a last line with the verdict
  bool passed = true;
};

/// What may be checked: a line per operator with its operands, and how to check the rest;
/// `width` as in TextTable::str().
std::string gradcheck_choices(size_t width = 0);
/// The names of those operators, and "all".
std::vector<std::string> gradcheck_operators();

/// Of each operand of `op` at its usual arguments.
std::vector<GradcheckResult> gradcheck_operator(const OperatorRow& op,
                                                const GradcheckOptions& options);

/// Throws usage for what is none of these, with the nearest operator's name.
GradcheckReport run_gradcheck(const GradcheckRequest& request);

/// The table alone: one row per tensor. `owners` (empty, or one per result) fill the first column.
GradcheckReport gradcheck_report(std::span<const GradcheckResult> results,
                                 std::span<const std::string> owners, double tolerance);

}  // namespace whisker
