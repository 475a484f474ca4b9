#include "core/io/text.h"

#include "core/io/utf8.h"

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

TEST(Text, WhatSteersATerminalIsEscaped) {
  EXPECT_EQ(printable("a\x1b]0;t\x07 b\x7f"), "a\\x1b]0;t\\x07 b\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc2\x85"),
            "\\u009b31m \\u0085");
  EXPECT_EQ(printable("\x9b"
                      "31m \xff\xc2"),
            "\\x9b31m \\xff\\xc2");
  EXPECT_EQ(printable("\u202e\u2066\u200f\u061c\u2028"), "\\u202e\\u2066\\u200f\\u061c\\u2028");
  EXPECT_EQ(printable(std::string_view("\0\r\n\t", 4)), "\\x00\\x0d\\x0a\\x09");
  const std::string kept = "\u00e9 \u05d0 \u65e5 \U0001f431 \\x1b 'q' \u00a0";
  EXPECT_EQ(printable(kept), kept);
}

TEST(Text, EveryCodePointIsShownOrEscapedOnce) {
  int escaped = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string text;
    const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
    if (c < 0x80) {
      add(c);
    } else {
      const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
      add((more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0) | c >> 6 * more);
      for (int i = more - 1; i >= 0; --i) add(0x80 | (c >> 6 * i & 0x3f));
    }
    ASSERT_EQ(code_point(text), c);
    const std::string shown = printable(text);
    ASSERT_EQ(printable(shown), shown);
    ASSERT_EQ(shown == text, !is_control(c)) << uint32_t{c};
    escaped += is_control(c) ? 1 : 0;
  }
  EXPECT_EQ(escaped, 32 + 33 + 3 + 7 + 4);  // C0; DEL and C1; marks; U+2028 to 202E; isolates
}

TEST(Text, LinesOfAMessageAreItsOwnWhereTheyAreIndented) {
  EXPECT_EQ(printable("a\n  b\n\n  c\n", KeptLines::indented), "a\n  b\n\n  c\n");
  EXPECT_EQ(printable("a\nb\n c\r\n\td", KeptLines::indented), "a\\x0ab\\x0a c\\x0d\\x0a\\x09d");
  EXPECT_EQ(printable("a\nb\t\x1b\r\n", KeptLines::all), "a\nb\t\\x1b\\x0d\n");
  EXPECT_EQ(indented("a\n\nb\n"), "  a\n\n  b\n");
}

TEST(Text, AnExcerptIsCutAfterSixtyCodePoints) {
  EXPECT_EQ(excerpt("a\x1b"), "'a\\x1b'");
  const std::string sixty(60, 'x');
  EXPECT_EQ(excerpt(sixty), "'" + sixty + "'");
  EXPECT_EQ(excerpt(sixty + "y"), "'" + sixty + "...'");
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

TEST(Text, LargeNumbersAreGroupedByThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(4805), "4,805");
  EXPECT_EQ(grouped(-123456), "-123,456");
  EXPECT_EQ(grouped(1234567), "1,234,567");
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
