// Philox against its published known answers, and the draws built on it.
#include "core/tensor/philox.h"

#include <array>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::ElementsAre;

// kat_vectors of Random123 (Salmon et al. 2011), lines "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, 0),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}),
              ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, 0x299f31d0a4093822u),
              ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(Philox, StreamNamesAreFnv1a) {  // published FNV-1a test values
  EXPECT_EQ(stream_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(stream_of("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(stream_of("foobar"), 0x85944171f73967e8u);
}

TEST(Philox, SequentialReaderReadsTheBlocksInOrder) {
  PhiloxStream stream(5, 9, 3);
  for (uint64_t block = 3; block < 6; ++block) {
    for (const uint32_t word : philox_block(5, 9, block)) EXPECT_EQ(stream.next(), word);
  }
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_LT(uniform_from(~0u), 1.0f);
  EXPECT_EQ(uniform_from(0), 0.0f);
  PhiloxStream stream(1, 2);
  double sum = 0;
  constexpr int n = 100'000;
  for (int i = 0; i < n; ++i) {
    const double u = stream.uniform();
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u;
  }
  EXPECT_NEAR(sum / n, 0.5, 4 / std::sqrt(12.0 * n));
}

TEST(Philox, NormalHasItsFirstFourMoments) {
  PhiloxStream stream(1, 3);
  constexpr int n = 100'000;
  std::array<double, 5> moment{};
  for (int i = 0; i < n; ++i) {
    const double z = stream.normal();
    double power = 1;
    for (double& m : moment) {
      m += power / n;
      power *= z;
    }
  }
  const double error = 4 / std::sqrt(double{n});  // four standard errors of the mean
  EXPECT_NEAR(moment[1], 0, error);
  EXPECT_NEAR(moment[2], 1, error * std::sqrt(2));
  EXPECT_NEAR(moment[3], 0, error * std::sqrt(15));
  EXPECT_NEAR(moment[4], 3, error * std::sqrt(96));
}

TEST(Philox, BoundedIntegersAreEven) {
  PhiloxStream stream(1, 4);
  std::vector<int> count(7);
  constexpr int n = 70'000;
  for (int i = 0; i < n; ++i) ++count[stream.below(7)];
  double chi_square = 0;
  for (const int c : count) chi_square += (c - 10'000.0) * (c - 10'000.0) / 10'000.0;
  EXPECT_LT(chi_square, 22.5);  // 6 degrees of freedom, one in a thousand
}

}  // namespace
}  // namespace whisker
