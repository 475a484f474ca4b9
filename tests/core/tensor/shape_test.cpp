// Shapes: what they hold, what they refuse, and how they broadcast.
#include "core/tensor/shape.h"

#include "tests/core/trace/tape_support.h"

#include <cstdint>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Shapes, CountAndAccess) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.count(), 24);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(s[-1], 4);
  EXPECT_EQ(s.str(), "(2,3,4)");
  EXPECT_EQ(Shape().count(), 1);
  EXPECT_EQ((Shape{3, 0, 5}).count(), 0);
  EXPECT_EQ(s.with(1, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(s.without(-2), (Shape{2, 4}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 1}));
}

TEST(Shapes, RefuseWhatCannotBe) {
  constexpr int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(error_of([] { Shape{huge}; }), HasSubstr("2^59"));
  EXPECT_THAT(error_of([] { Shape{huge, huge}; }), HasSubstr("2^59"));
  EXPECT_THAT(error_of([] { Shape{int64_t{1} << 31, int64_t{1} << 31}; }), HasSubstr("2^59"));
  EXPECT_THAT(error_of([] { Shape{0, huge, huge}; }), HasSubstr("2^59"));
  EXPECT_EQ((Shape{int64_t{1} << 29, int64_t{1} << 30}).count(), int64_t{1} << 59);
  EXPECT_THAT(error_of([] {
                (void)Shape{2, 3}[2];
              }),
              AllOf(HasSubstr("axis 2"), HasSubstr("(2,3)")));
  EXPECT_THAT(error_of([] { (void)Shape{2, 3}[-3]; }), HasSubstr("axis -3"));
}

TEST(Shapes, Broadcast) {
  EXPECT_EQ(broadcast_shapes({2, 3}, {3}, "op"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}, "op"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {2}, "op"), (Shape{2}));
  EXPECT_EQ(broadcast_shapes({0, 1}, {1, 5}, "op"), (Shape{0, 5}));
  EXPECT_THAT(error_of([] {
                broadcast_shapes({2, 3}, {2, 4}, "op");
              }),
              AllOf(HasSubstr("2: op:"), HasSubstr("(2,3)"), HasSubstr("(2,4)")));
  EXPECT_THAT(error_of([] { broadcast_shapes({0}, {2}, "op"); }), HasSubstr("do not broadcast"));
}

}  // namespace
}  // namespace whisker
