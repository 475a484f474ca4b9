// Every operator, row by row: see tests/support/check_op.h for what a row is held to.
#include "tests/core/op_table/rows.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

std::vector<OpCase> all_rows() {
  std::vector<OpCase> rows;
  for (auto* family :
       {arithmetic_rows, activation_rows, reduction_rows, shape_rows, matmul_rows, conv2d_rows,
        pool2d_rows, norm_rows, pooled_norm_rows, loss_rows, recurrent_rows}) {
    append(rows, family());
  }
  return rows;
}

class OpTable : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpTable, Row) {
  check_op(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, OpTable, ::testing::ValuesIn(all_rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace whisker::test
