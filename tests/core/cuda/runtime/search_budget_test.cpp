// A search should cost less than it can save.
#include "core/cuda/runtime/search_budget.h"

#include <cmath>

#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

TEST(SearchBudget, OneChoiceMayTakeATenthOfAllItsUses) {
  SearchBudget budget;
  EXPECT_TRUE(std::isinf(budget.worth(1)));
  budget.set_uses(5000);
  EXPECT_NEAR(budget.worth(0.2f), 0.1, 1e-6);  // seconds; all uses take one
  EXPECT_TRUE(std::isinf(budget.worth(INFINITY)));
}

}  // namespace
}  // namespace whisker::cuda
