// Stands beside the operators' tests in programs whose CPU backend was built for one vector level
// (see tests/core/CMakeLists.txt): no loop of another level may be in there.
#include "core/io/file.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace whisker {
namespace {

class OnlyWhereTheCpuHasIt final : public ::testing::Environment {
  void SetUp() override {
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
    if (std::string_view(WHISKER_VECTOR_TARGET) == "arch=x86-64-v3" && !v3) {
      GTEST_SKIP() << "this CPU has no AVX2";
    }
  }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new OnlyWhereTheCpuHasIt);

// GCC names the clones of a loop after their levels.
TEST(VectorLevel, HoldsNoLoopOfAnother) {
  const auto program = [](const char* path) { return read_file(path, 1 << 30, ErrorKind::disk); };
  const std::string clone = std::string(".arch_x86_64_v") + std::to_string(4);  // not whole in here
  EXPECT_EQ(program("/proc/self/exe").find(clone), std::string::npos);
  EXPECT_TRUE(program(WHISKER_DISPATCHING_PROGRAM).find(clone) != std::string::npos)
      << "control: the program that chooses among the levels has a loop of each";
}

}  // namespace
}  // namespace whisker
