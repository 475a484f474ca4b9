// The rows of the operator table as parameters of tests.
#pragma once

#include "core/trace/operator_table.h"

#include <ostream>
#include <string>

#include <gtest/gtest.h>

namespace whisker {

inline void PrintTo(const OperatorRow& row, std::ostream* out) {
  *out << row.name;
}

namespace test {

class EveryOperator : public ::testing::TestWithParam<OperatorRow> {
 public:
  static auto rows() { return ::testing::ValuesIn(operator_table()); }
  static std::string name(const ::testing::TestParamInfo<OperatorRow>& row) {
    return row.param.name;
  }
};

}  // namespace test
}  // namespace whisker
