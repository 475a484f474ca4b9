// The autotune table: rows survive export and import, other environments add nothing, a
// damaged table is refused as a whole.
#include "core/backend/autotune_table.h"

#include "core/error.h"
#include "tests/support/error_of.h"

#include <gtest/gtest.h>

namespace whisker::test {
namespace {

/// A table of a GPU whose libraries and device may be others.
AutotuneTable table_of(int64_t cudnn = 91900, const char* device = "NVIDIA H200") {
  return {{"convolutions", "products"}, [=] {
            return AutotuneTable::Environment{{"cudnn", cudnn}, {"device", device}};
          }};
}

TEST(AutotuneTable, RowsComeBack) {
  AutotuneTable table = table_of();
  EXPECT_EQ(table.text(), "");
  table.set("convolutions", "forward bf16 x(1,2,3,4)", "engine 34 knobs 2:1");
  table.set("products", "bf16 1 of (2,3) x (3,4)", "00ff");
  AutotuneTable other = table_of();
  other.add(table.text());
  EXPECT_EQ(other.find("convolutions", "forward bf16 x(1,2,3,4)"), "engine 34 knobs 2:1");
  EXPECT_EQ(other.find("products", "bf16 1 of (2,3) x (3,4)"), "00ff");
  EXPECT_FALSE(other.find("products", "forward bf16 x(1,2,3,4)"));
  EXPECT_EQ(other.text(), table.text());
}

TEST(AutotuneTable, NewRowsWinAndOthersStay) {
  AutotuneTable table = table_of();
  table.set("convolutions", "a", "engine 1");
  table.set("convolutions", "b", "engine 2");
  AutotuneTable other = table_of();
  other.set("convolutions", "a", "engine 3");
  table.add(other.text());
  EXPECT_EQ(table.find("convolutions", "a"), "engine 3");
  EXPECT_EQ(table.find("convolutions", "b"), "engine 2");
}

TEST(AutotuneTable, OtherEnvironmentsAddNothing) {
  for (AutotuneTable other : {table_of(91400), table_of(91900, "NVIDIA A100")}) {
    other.set("convolutions", "a", "engine 1");
    AutotuneTable table = table_of();
    table.add(other.text());
    EXPECT_EQ(table.text(), "");
  }
  // One of the CPU, which knows no cuDNN.
  AutotuneTable table = table_of();
  table.add(R"({"library":"oneDNN 2.6.3","isa":39,"threads":2,"convolutions":{"a":"winograd"}})");
  EXPECT_EQ(table.text(), "");
}

TEST(AutotuneTable, DamageIsRefusedWhole) {
  AutotuneTable good = table_of();
  good.set("convolutions", "a", "engine 1");
  good.set("products", "b", "00");
  const std::string text = good.text();
  for (size_t length = 1; length < text.size(); ++length) {
    AutotuneTable table = table_of();
    EXPECT_THROW(table.add(text.substr(0, length)), Error) << length;
    EXPECT_EQ(table.text(), "");
  }
  AutotuneTable table = table_of();
  const char* const number_for_an_algorithm =
      R"({"cudnn":91900,"device":"NVIDIA H200",
          "convolutions":{"a":"engine 1"},"products":{"b":7}})";
  EXPECT_TRUE(refused(ErrorKind::checkpoint, [&] { table.add(number_for_an_algorithm); }));
  EXPECT_EQ(table.text(), "");
}

}  // namespace
}  // namespace whisker::test
