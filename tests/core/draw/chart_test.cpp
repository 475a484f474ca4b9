// What charts contain; that foreign names stay text.
#include "core/draw/chart.h"

#include "core/draw/markup.h"
#include "core/error.h"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int times(const std::string& text, std::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Markup, ForeignTextStaysText) {
  EXPECT_EQ(markup("<b a='1' c=\"2\">&\x1b[1m\xff"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\\x1b[1m\\xff");
  const std::string long_name(5000, '<');
  EXPECT_THAT(markup(long_name), HasSubstr("&lt; [… 4,000 characters …] &lt;"));
  EXPECT_EQ(markup(long_name, KeptLines::all).size(), 4 * 5000U);
  EXPECT_DOUBLE_EQ(text_width("\u2016\u2207\u2016", 10), 3 * 6.02);
  constexpr std::array<uint8_t, 4> bytes = {0, 255, 16, 7};
  EXPECT_EQ(base64(bytes), "AP8QBw==");
}

TEST(Chart, AreasStackAndBytesHaveUnits) {
  const double MiB = 1 << 20;
  const Chart chart{
      .title = "a < b",
      .x = {.label = "step"},
      .y = {.label = "memory", .bytes = true},
      .series = {{.name = "one", .kind = SeriesKind::area, .x = {0, 1}, .y = {MiB, MiB}},
                 {.name = "<two>", .kind = SeriesKind::area, .x = {0, 1}, .y = {MiB, 3 * MiB}}},
      .marks = {{.x = 1, .text = "peak & more"}}};
  const std::string svg = chart_svg(chart);
  EXPECT_THAT(svg, HasSubstr(">4.0 MiB</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">5.0 MiB</text>")));
  EXPECT_THAT(svg, HasSubstr("&lt;two&gt;"));
  EXPECT_THAT(svg, HasSubstr("peak &amp; more"));
  EXPECT_THAT(svg, Not(HasSubstr("<two>")));
  EXPECT_EQ(times(svg, "<polygon"), 2);
  // The upper area ends where the lower one begins: its last corners are the first ones below.
  const size_t lower = svg.find("points=\"") + 8, upper = svg.find("points=\"", lower) + 8;
  const std::string first = svg.substr(lower, svg.find(' ', lower) - lower);
  EXPECT_THAT(svg.substr(upper, svg.find("/>", upper) - upper), HasSubstr(first + " \""));
}

TEST(Chart, LogarithmicPointsKeepTheirLabelsApart) {
  const Chart chart{
      .title = "t",
      .x = {.label = "x", .log = true},
      .y = {.label = "y", .log = true},
      .series = {{.kind = SeriesKind::points,
                  .x = {1, 1, 1000, -1},
                  .y = {10, 10, 1e6, 10},
                  .labels = {"first", "second", "far", "negative"}},
                 {.name = "line", .x = {1, 10, 100, 1000}, .y = {10, 100, NAN, 1e4}}}};
  const std::string svg = chart_svg(chart);
  EXPECT_EQ(times(svg, "<title>first: 1, 10</title>"), 1);
  EXPECT_THAT(svg, HasSubstr(">second</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("negative")));
  EXPECT_EQ(times(svg, "<polyline"), 1);  // before the gap; behind it the line is a dot
  EXPECT_THAT(svg, HasSubstr(">1000</text>"));
}

TEST(Chart, ValuesThatAreNearlyEqualHaveFewTicks) {
  const std::string svg =
      chart_svg({.title = "t", .series = {{.x = {0, 1}, .y = {1e17, 1e17 + 16}}}});
  EXPECT_LT(times(svg, "class=\"grid\""), 45);
}

TEST(Chart, NeighbouringTicksDiffer) {
  const std::string svg = chart_svg(
      {.title = "t", .series = {line_of("", std::vector{std::pair{0.0, 2.6315}, {1.0, 2.633}})}});
  for (const char* tick : {">2.6315<", ">2.632<", ">2.6325<"})
    EXPECT_EQ(times(svg, tick), 1) << tick;
  const std::string large =
      chart_svg({.title = "t", .series = {{.x = {0, 1}, .y = {1.7e308, 1.70001e308}}}});
  EXPECT_EQ(times(large, ">1.700004e+308<"), 1) << large;  // ten times it is infinite
}

TEST(Chart, BarsAndNothing) {
  const std::string bars =
      chart_svg({.title = "t",
                 .x = {.label = "x"},
                 .y = {.label = "y"},
                 .series = {{.kind = SeriesKind::bars, .x = {1, 2, 3}, .y = {1, -2, NAN}}}});
  EXPECT_EQ(times(bars, "<rect class=\"c0\""), 2);
  EXPECT_THAT(chart_svg({.title = "t", .y = {.log = true}}), Not(HasSubstr("nan")));
  EXPECT_THROW(chart_svg({.title = "t", .series = {{.x = {1}, .y = {}}}}), Error);
}

}  // namespace
}  // namespace whisker
