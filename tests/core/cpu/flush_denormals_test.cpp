// Denormal numbers are zero while a FlushDenormals lives, and back afterwards.
#include "core/cpu/support/flush_denormals.h"

#include <limits>

#include <gtest/gtest.h>

namespace whisker::cpu {
namespace {

float half_of_smallest() {
  volatile float smallest = std::numeric_limits<float>::min();
  return smallest * 0.5f;
}

TEST(FlushDenormals, LastsAsLongAsItLives) {
#if !defined(__x86_64__) && !defined(__aarch64__)
  GTEST_SKIP() << "done on x86-64 and 64-bit ARM only";
#endif
  EXPECT_GT(half_of_smallest(), 0);
  {
    const FlushDenormals flush;
    EXPECT_EQ(half_of_smallest(), 0);
    volatile float denormal = std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(denormal * 1e30f, 0);
  }
  EXPECT_GT(half_of_smallest(), 0);
}

}  // namespace
}  // namespace whisker::cpu
