#include "core/io/text.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace whisker {
namespace {

TEST(Text, NearestNameFindsSlipsAndRejectsStrangers) {
  const std::vector<std::string> names = {"learning_rate", "momentum", "batch_size"};
  EXPECT_EQ(nearest_name("learning_rat", names), "learning_rate");
  EXPECT_EQ(nearest_name("batchsize", names), "batch_size");
  EXPECT_EQ(nearest_name("zebra", names), "");
  const std::vector<std::string> short_names = {"seed", "train", "adam"};
  EXPECT_EQ(nearest_name("trian", short_names), "train");  // two letters changed places: one slip
  EXPECT_EQ(nearest_name("adma", short_names), "adam");
}

TEST(Text, PatternStarIsAnyRun) {
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("layer1.*", "layer1.0.conv1.weight"));
  EXPECT_TRUE(matches_pattern("*.bias", "fc.bias"));
  EXPECT_TRUE(matches_pattern("a*b*c", "a-b-b-c"));
  EXPECT_FALSE(matches_pattern("layer1.*", "layer10.0.weight"));
  EXPECT_FALSE(matches_pattern("fc", "fc.bias"));
}

TEST(Text, HumanBytesUsesBinaryUnits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(uint64_t{3} << 30), "3.0 GiB");
}

TEST(Text, BytesAreReadWithTheirUnits) {
  EXPECT_EQ(parse_bytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("1.5 GB"), 1'500'000'000);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("4096 B"), 4096);
  EXPECT_EQ(parse_bytes("0.5KiB"), 512);
  for (const char* none : {"", "GiB", "2 gib", "2GiBs", "-1MiB", "1e3", "nan", "inf", "9000000TiB",
                           "2  GiB", " 2GiB"}) {
    EXPECT_EQ(parse_bytes(none), std::nullopt) << none;
  }
}

}  // namespace
}  // namespace whisker
