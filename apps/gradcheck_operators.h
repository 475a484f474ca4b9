// The operators that `whisker study gradcheck` knows by name, with inputs that exercise them.
#pragma once

#include "core/gradcheck.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// An operand: distinct values spread over (low, high), so that no two elements tie and none is 0.
struct OperandSpec {
  std::string name;
  Shape shape;
  double low = -1, high = 1;
};

struct GradcheckOperator {
  std::string name;
  std::vector<OperandSpec> operands;
  std::function<Tensor(std::span<const Tensor>)> apply;
};

/// In the order of core/ops.h.
std::span<const GradcheckOperator> gradcheck_operators();

std::vector<GradcheckResult> gradcheck_operator(const GradcheckOperator& op,
                                                const GradcheckOptions& options);

}  // namespace whisker
