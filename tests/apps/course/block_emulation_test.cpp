// The emulated block of docs/course/gpu: what it accepts, and what it finds. Its kernels are in
// planted_gpu.cpp, which is compiled as a kernel is.
#include "tests/apps/course/planted.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

TEST(BlockEmulation, AcceptsWhatIsOrdered) {
  const auto said = said_by_emulation();
  EXPECT_EQ(said.at("one value"), "");  // several threads write the same
  EXPECT_EQ(said.at("shuffles"), "");
  EXPECT_EQ(said.at("in the warp"), "");
}

TEST(BlockEmulation, FindsWhatNothingOrders) {
  const auto said = said_by_emulation();
  EXPECT_THAT(said.at("without a barrier"), HasSubstr("a __syncthreads() is missing"));
  EXPECT_THAT(said.at("adds and reads"), HasSubstr("Nothing orders the two"));
  EXPECT_THAT(said.at("tickets"), HasSubstr("depends on the order of the threads"));
}

TEST(BlockEmulation, ChecksVectorsToTheirEnd) {
  EXPECT_THAT(said_by_emulation().at("four at once"), HasSubstr("[64], but"));
}

}  // namespace
}  // namespace whisker
