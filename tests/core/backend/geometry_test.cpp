// How few axes the walks handed to backends have, and the places of windows, counted one by one.
#include "core/backend/geometry.h"

#include "core/ops/window.h"
#include "tests/core/trace/tape_support.h"

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker {
namespace {

using testing::HasSubstr;

struct BroadcastRow {
  Shape a, b;
  int rank;  // after merging
};

// The operator table shows that results are right whatever is merged.
TEST(BroadcastGeometries, MergeAxesThatBothOperandsWalkAlike) {
  const BroadcastRow rows[] = {{{2, 3, 4}, {2, 3, 4}, 1},
                               {{2, 3, 4}, {4}, 2},
                               {{2, 3, 4}, {3, 1}, 3},
                               {{2, 3, 4}, {}, 1},
                               {{}, {}, 1},
                               {{1}, {5}, 1},
                               {{2, 1, 4}, {1, 3, 1}, 3},
                               {{2, 3, 4, 5}, {4, 5}, 2},
                               {{2, 3, 1, 1}, {2, 3, 4, 5}, 2},
                               {{1, 1}, {1}, 0},
                               {{3, 1, 5, 1, 2}, {1, 4, 1, 6, 1}, 5}};
  for (const auto& [a, b, rank] : rows) {
    const Shape out = broadcast_shapes(a, b, "test");
    EXPECT_EQ(BroadcastGeometry::of(a, b, out).rank, rank) << a.str() << b.str();
  }
}

TEST(ReduceGeometries, MergeNeighboursOfOneKind) {
  AxisMask mask{};
  mask[1] = mask[2] = true;
  const auto g = ReduceGeometry::of({2, 3, 4, 5, 6}, mask);
  ASSERT_EQ(g.rank, 3);
  EXPECT_EQ(g.extent[1], 12);
  EXPECT_TRUE(!g.reduced[0] && g.reduced[1] && !g.reduced[2]);
  EXPECT_EQ(g.out_count, 60);
  EXPECT_EQ(g.reduce_count, 12);
  EXPECT_EQ(ReduceGeometry::of({1, 1}, mask).rank, 0);
  EXPECT_EQ(ReduceGeometry::of({7, 1, 1, 5}, mask).rank, 1);
}

TEST(CopyGeometries, MergeAxesThatMoveAlike) {
  CopyGeometry g;
  for (const auto& [n, from, to] :
       {std::array<int64_t, 3>{2, 60, 12}, {1, 9, 9}, {3, 4, 4}, {4, 1, 1}}) {
    g.append(n, from, to);
  }
  ASSERT_EQ(g.rank, 2);
  EXPECT_EQ(g.extent[1], 12);
}

// Windows of reach r that fit into before + extent + after, counted one by one.
int64_t counted(const WindowAxis& a, const WindowPlaces& places) {
  const int64_t reach = (a.kernel - 1) * a.dilation + 1;
  int64_t count = 0;
  for (int64_t at = 0; at + reach <= places.before + a.extent + places.after; at += a.stride)
    ++count;
  return count;
}

TEST(Windows, AgreeWithCounting) {
  for (int64_t extent = 1; extent <= 9; ++extent) {
    for (int64_t kernel = 1; kernel <= 4; ++kernel) {
      for (int64_t stride = 1; stride <= 4; ++stride) {
        for (int64_t dilation = 1; dilation <= 2; ++dilation) {
          WindowAxis a{.extent = extent, .kernel = kernel, .stride = stride, .dilation = dilation};
          a.mode = PaddingMode::same;
          const WindowPlaces same = place_windows("op", "height", a);
          EXPECT_EQ(same.count, (extent + stride - 1) / stride);
          EXPECT_EQ(same.count, counted(a, same));
          EXPECT_TRUE(same.after - same.before == 0 || same.after - same.before == 1);
          a.mode = PaddingMode::number;
          a.padding = kernel - 1;
          const WindowPlaces number = place_windows("op", "height", a);
          EXPECT_EQ(number.count, counted(a, number));
          a.ceil = true;
          const WindowPlaces up = place_windows("op", "height", a);
          EXPECT_EQ(up.count, counted(a, up));
          EXPECT_LT((up.count - 1) * stride, extent + up.before) << "the last window sees nothing";
          EXPECT_LE(up.count - number.count, 1);
        }
      }
    }
  }
}

// PyTorch's pooling_output_shape: the extent is rounded up, but the last window starts before the
// end padding. A window larger than the axis may be the only one.
TEST(Windows, AreRoundedUpAsPyTorchDoes) {
  for (int64_t extent = 1; extent <= 9; ++extent) {
    for (int64_t kernel = 1; kernel <= 12; ++kernel) {
      for (int64_t stride = 1; stride <= 5; ++stride) {
        for (int64_t padding = 0; padding <= kernel / 2; ++padding) {
          const int64_t over = extent + 2 * padding - kernel + stride - 1;
          int64_t wanted = (over >= 0 ? over / stride : -1) + 1;
          if ((wanted - 1) * stride >= extent + padding) --wanted;
          const WindowAxis a{.extent = extent,
                             .kernel = kernel,
                             .stride = stride,
                             .padding = padding,
                             .ceil = true};
          SCOPED_TRACE(fmt::format("{} {} {} {}", extent, kernel, stride, padding));
          if (wanted < 1) {
            EXPECT_THAT(error_of([&] { place_windows("op", "w", a); }), HasSubstr("does not fit"));
            continue;
          }
          const WindowPlaces up = place_windows("op", "w", a);
          EXPECT_EQ(up.count, wanted);
          EXPECT_EQ(up.count, counted(a, up)) << "the end that windows reach is that of the last";
          EXPECT_EQ(up.after_padding, padding);
        }
      }
    }
  }
}

TEST(Windows, RefuseWhatDoesNotFit) {
  EXPECT_THAT(error_of([] { place_windows("conv2d", "width", {.extent = 4, .kernel = 5}); }),
              testing::AllOf(HasSubstr("2: conv2d:"), HasSubstr("width"), HasSubstr("same")));
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(error_of([] {
                place_windows("conv2d", "width",
                              {.extent = most, .kernel = most, .padding = most, .dilation = most});
              }),
              HasSubstr("does not fit"));
  EXPECT_EQ(place_windows("op", "w", {.extent = most, .kernel = 1, .padding = most}).count,
            3 * most);
}

}  // namespace
}  // namespace whisker
