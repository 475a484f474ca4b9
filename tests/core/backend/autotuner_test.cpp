// The autotuner: the fastest candidate serves and is stored; where memory is short it only serves.
#include "core/backend/autotuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using ::testing::ElementsAre;

struct Request {
  int64_t size = 0;
  bool operator==(const Request&) const = default;
  std::string describe() const { return fmt::format("size {}", size); }
  size_t hash() const { return WordHash().add(size).value(); }
};

constexpr float unsupported = -2, wrong = -3;

/// An algorithm that takes `time`; broken where that is 0, short of memory where it is -1.
struct Candidate {
  std::string text;
  float time = 1;
  const std::string& name() const { return text; }
};

class AutotunerTest : public ::testing::Test {
 protected:
  using Tuner = Autotuner<Request, Candidate>;

  Tuner::Choice fastest_of(const std::vector<Candidate>& candidates, bool fits = true) {
    return tuner_.fastest(
        {7},
        [&](const auto& consider) {
          for (const Candidate& c : candidates) {
            consider(c.text, [&] {
              ++made_;
              return std::make_shared<Candidate>(c);
            });
          }
        },
        [](const Candidate& c, float) {
          if (c.time == -1) throw OutOfMemory("short", 0);
          if (c.time == unsupported) throw Unsupported("unsupported");
          if (c.time == wrong) fail(ErrorKind::internal, "wrong");
          if (c.time == 0) fail(ErrorKind::device, "broken");
          return c.time;
        },
        [&](const Candidate&) { return fits; });
  }
  std::string stored() const { return tuner_.stored({7}).value_or(""); }

  AutotuneTable table_{{"kind"}, [] { return AutotuneTable::Environment{{"version", 1}}; }};
  Tuner tuner_{table_, "kind"};
  int made_ = 0;
};

TEST_F(AutotunerTest, TheFastestServesAndIsStored) {
  const auto choice = fastest_of({{"a", 3}, {"b", 2}, {"broken", 0}, {"c", 2}, {"a", 1}});
  EXPECT_EQ(choice.algorithm->name(), "b");
  EXPECT_TRUE(choice.settled && !choice.lacks_memory);
  EXPECT_EQ(stored(), "b");
  EXPECT_EQ(made_, 4) << "a candidate is made once";
  EXPECT_THAT(table_.take_failures(),
              ElementsAre("autotuner: size 7: 'broken' failed and is not used: broken"));
  EXPECT_TRUE(table_.take_failures().empty());
}

TEST_F(AutotunerTest, WhatALibraryDoesNotSupportIsNoFailure) {
  EXPECT_EQ(fastest_of({{"unsupported", unsupported}, {"a", 3}}).algorithm->name(), "a");
  EXPECT_TRUE(table_.take_failures().empty());
}

TEST_F(AutotunerTest, AFaultOfOursEndsTheSearch) {
  EXPECT_THROW(fastest_of({{"a", 3}, {"wrong", wrong}}), Error);
}

TEST_F(AutotunerTest, WhereMemoryIsShortOthersServeUntilItIsNot) {
  const auto choice = fastest_of({{"a", -1}, {"b", 2}});
  EXPECT_EQ(choice.algorithm->name(), "b");
  EXPECT_TRUE(choice.lacks_memory);
  EXPECT_EQ(stored(), "");
  tuner_.add({7}, choice);
  tuner_.add({8}, fastest_of({{"a", 2}}));
  tuner_.forget_short_of_memory();
  EXPECT_EQ(tuner_.find({7}), nullptr);
  ASSERT_NE(tuner_.find({8}), nullptr);
  EXPECT_EQ(tuner_.find({8})->algorithm->name(), "a");
}

TEST_F(AutotunerTest, NothingIsStoredWhereNothingServes) {
  EXPECT_THROW(fastest_of({{"a", -1}, {"broken", 0}}), OutOfMemory);
  EXPECT_EQ(fastest_of({{"broken", 0}}).algorithm, nullptr);
  EXPECT_EQ(fastest_of({{"a", 1}}, /*fits=*/false).algorithm, nullptr);
  EXPECT_EQ(stored(), "");
}

}  // namespace
}  // namespace whisker::test
