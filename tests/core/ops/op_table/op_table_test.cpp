// Every operator, row by row: see tests/support/check_op.h for what a row is held to.
#include "tests/core/ops/op_table/rows.h"
#include "tests/support/devices.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

class OpTable : public ::testing::TestWithParam<OpCase> {};

TEST_P(OpTable, Row) {
  check_definition(GetParam());
  check_on(GetParam(), reference_device);
  check_on(GetParam(), cpu_device);
}

TEST_P(OpTable, OnCuda) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "skipped: no GPU (" << why_no_cuda() << ")";
  for (const Device device : test_devices()) {
    if (device.kind == DeviceKind::cuda) check_on(GetParam(), device);
  }
}

INSTANTIATE_TEST_SUITE_P(, OpTable, ::testing::ValuesIn(all_rows()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace whisker::test
