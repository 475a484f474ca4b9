// The CUDA autotune table: rows survive export and import, other environments add nothing, a
// damaged table is refused as a whole.
#include "core/cuda/autotune/autotune_table.h"

#include "core/error.h"
#include "tests/support/error_of.h"

#include <gtest/gtest.h>

namespace whisker::cuda {
namespace {

using Kind = AutotuneTable::Kind;

AutotuneEnvironment here() {
  return {.cudnn = 91900, .cublas_lt = 130100, .kernels = 2, .device = "NVIDIA H200"};
}

TEST(CudaAutotuneTable, RowsComeBack) {
  AutotuneTable table(here);
  EXPECT_EQ(table.text(), "");
  table.set(Kind::convolution, "forward bf16 x(1,2,3,4)", "engine 34 knobs 2:1");
  table.set(Kind::gemm, "bf16 1 of (2,3) x (3,4)", "00ff");
  AutotuneTable other(here);
  other.add(table.text());
  EXPECT_EQ(other.find(Kind::convolution, "forward bf16 x(1,2,3,4)"), "engine 34 knobs 2:1");
  EXPECT_EQ(other.find(Kind::gemm, "bf16 1 of (2,3) x (3,4)"), "00ff");
  EXPECT_FALSE(other.find(Kind::gemm, "forward bf16 x(1,2,3,4)"));
  EXPECT_EQ(other.text(), table.text());
}

TEST(CudaAutotuneTable, NewRowsWinAndOthersStay) {
  AutotuneTable table(here);
  table.set(Kind::convolution, "a", "engine 1");
  table.set(Kind::convolution, "b", "engine 2");
  AutotuneTable other(here);
  other.set(Kind::convolution, "a", "engine 3");
  table.add(other.text());
  EXPECT_EQ(table.find(Kind::convolution, "a"), "engine 3");
  EXPECT_EQ(table.find(Kind::convolution, "b"), "engine 2");
}

TEST(CudaAutotuneTable, OtherEnvironmentsAddNothing) {
  for (const AutotuneEnvironment& environment :
       {AutotuneEnvironment{91400, 130100, 2, "NVIDIA H200"},
        AutotuneEnvironment{91900, 1, 2, "NVIDIA H200"},
        AutotuneEnvironment{91900, 130100, 1, "NVIDIA H200"},
        AutotuneEnvironment{91900, 130100, 2, "NVIDIA A100"}}) {
    AutotuneTable other_table([&] { return environment; });
    other_table.set(Kind::convolution, "a", "engine 1");
    AutotuneTable table(here);
    table.add(other_table.text());
    EXPECT_EQ(table.text(), "");
  }
  // The CPU's, and one from before our kernels were counted.
  for (const char* text :
       {R"({"library":"oneDNN 2.6.3","isa":39,"threads":2,"convolutions":{"a":"winograd"}})",
        R"({"cudnn":91900,"cublas_lt":130100,"device":"NVIDIA H200",
            "convolutions":{"a":"engine 1"},"products":{}})"}) {
    AutotuneTable table(here);
    table.add(text);
    EXPECT_EQ(table.text(), "");
  }
}

TEST(CudaAutotuneTable, DamageIsRefusedWhole) {
  AutotuneTable good(here);
  good.set(Kind::convolution, "a", "engine 1");
  good.set(Kind::gemm, "b", "00");
  const std::string text = good.text();
  for (size_t length = 1; length < text.size(); ++length) {
    AutotuneTable table(here);
    EXPECT_THROW(table.add(text.substr(0, length)), Error) << length;
    EXPECT_EQ(table.text(), "");
  }
  AutotuneTable table(here);
  const char* const number_for_an_algorithm =
      R"({"cudnn":91900,"cublas_lt":130100,"kernels":2,"device":"NVIDIA H200",
          "convolutions":{"a":"engine 1"},"products":{"b":7},"recurrent":{}})";
  EXPECT_TRUE(test::refused(ErrorKind::checkpoint, [&] { table.add(number_for_an_algorithm); }));
  EXPECT_EQ(table.text(), "");
}

}  // namespace
}  // namespace whisker::cuda
