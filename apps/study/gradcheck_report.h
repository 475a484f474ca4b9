// What `whisker study gradcheck` checks and prints.
#pragma once

#include "apps/study/study_network.h"
#include "core/autograd/gradcheck.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

struct OperatorRow;

struct GradcheckRequest {
  /// A row of operator_table() with operands, "all", a built-in network, or a configuration file;
  /// nothing with an expression.
  std::string what;
  std::vector<std::string> overrides = {};  ///< for a configuration; bindings of an expression
  std::string expression = {};
  uint64_t seed = 0;  ///< of an expression's random numbers
  StudyOptions network = {};
  int64_t elements = 0;  ///< per tensor; 0: all of an operator's or expression's, 3 of a network's
  double tolerance = 1e-6;
  bool second_order = false;  ///< gradients of gradients
  bool sweep = false;         ///< errors over the step, for GradcheckReport::svg()
};

struct GradcheckReport {
  std::string heading = {};  ///< "" for operators
  std::vector<GradcheckResult> results = {};
  std::vector<std::string> owners = {};  ///< one per result, or none: the operators
  double tolerance = 1e-6;
  bool second_order = false;
  std::vector<std::string> unsupported = {};  ///< operators without gradients of gradients

  size_t wrong() const;
  bool passed() const { return wrong() == 0; }
  /// A table with one row per tensor, kinks, and the verdict, in lines of at most `width` columns
  /// (0: no limit), as far as the table can.
  std::string text(size_t width = 0) const;
  std::string json() const;
  /// Errors of the finite differences over their step.
  std::string svg() const;
};

/// Whether GradcheckReport::svg() made the content, and nobody changed it.
bool is_gradcheck_svg(std::string_view content);

/// The steps of a sweep, the largest first: 1e-1 to 1e-12.
std::vector<double> sweep_steps();

/// What may be checked: a line per operator with its operands, and how to check the rest;
/// `width` as in TextTable::str().
std::string gradcheck_choices(size_t width = 0);
/// The names of those operators, and "all".
std::vector<std::string> gradcheck_operators();

/// Checks each operand of `op` at its usual arguments; with `second_order` also dy. Throws usage
/// then for an operator without gradients of gradients.
std::vector<GradcheckResult> gradcheck_operator(const OperatorRow& op,
                                                const GradcheckOptions& options,
                                                bool second_order = false);

/// Throws usage for what is none of these, with the nearest operator's name.
GradcheckReport run_gradcheck(const GradcheckRequest& request);

}  // namespace whisker
