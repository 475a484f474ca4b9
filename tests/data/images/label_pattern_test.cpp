#include "data/images/label_pattern.h"

#include "core/error.h"

#include <chrono>

#include <gtest/gtest.h>

namespace whisker {
namespace {

using Label = std::optional<std::string>;

TEST(LabelPattern, TakesTheLabelFromTheName) {
  EXPECT_EQ(LabelPattern("{label}.*.jpg").match("train/cat.0.jpg"), Label("cat"));
  EXPECT_EQ(LabelPattern("{label}_#.jpg").match("great_pyrenees_12.jpg"), Label("great_pyrenees"));
  EXPECT_EQ(LabelPattern("{label}_*.jpg").match("great_pyrenees_12.jpg"), Label("great"));
  EXPECT_EQ(LabelPattern("img-?_?-{label}").match("img-0_7-dog.png"), Label("dog.png"));
  EXPECT_EQ(LabelPattern("*-{label}.jpg").match("a-b-c.jpg"), Label("b-c"));
  EXPECT_EQ(LabelPattern("#{label}").match("12x"), Label("2x"));
}

TEST(LabelPattern, KnowsTheLongestLabel) {
  EXPECT_EQ(LabelPattern("{label}_*").longest("a_pit_bull_12.jpg"), "a_pit_bull");
  EXPECT_EQ(LabelPattern("{label}_#.*").longest("a_pit_bull_12.jpg"), "a_pit_bull");
  EXPECT_EQ(LabelPattern("{label}*/*").longest("cats/b.jpg"), "cats");
}

TEST(LabelPattern, MatchesPathsWhenItHoldsASlash) {
  const LabelPattern pattern("*/{label}/*");
  EXPECT_EQ(pattern.match("a/cat/1.jpg"), Label("cat"));
  EXPECT_EQ(pattern.match("a/b/cat/1.jpg"), std::nullopt);  // nothing crosses a slash
  EXPECT_EQ(pattern.match("cat/1.jpg"), std::nullopt);
}

TEST(LabelPattern, RefusesNamesThatDoNotFit) {
  EXPECT_EQ(LabelPattern("{label}.#.jpg").match("cat.x.jpg"), std::nullopt);
  EXPECT_EQ(LabelPattern("{label}.#.jpg").match(".1.jpg"), std::nullopt);
  EXPECT_EQ(LabelPattern("{label}.jpg").match("cat.jpg.bak"), std::nullopt);
  EXPECT_EQ(LabelPattern("{label}").match(""), std::nullopt);
}

TEST(LabelPattern, RefusesPatternsWithoutOneLabel) {
  for (const char* bad : {"", "*.jpg", "{label}{label}", "{name}.jpg", "{label", "{label}}"}) {
    EXPECT_THROW(LabelPattern{bad}, Error) << bad;
  }
}

TEST(LabelPattern, CannotRunAway) {
  std::string pattern;
  for (int i = 0; i < 1000; ++i) pattern += "*a";
  const std::string name(4000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(LabelPattern(pattern + "{label}b").match(name), std::nullopt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

}  // namespace
}  // namespace whisker
