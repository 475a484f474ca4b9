// Windows that tests pool: small images against plain loops on every device
// (ops/op_table/pool2d_rows.cpp), larger ones on the CPU and the GPU against the reference
// (ops/op_table/large_test.cpp), and odd values on the GPU (cuda/ops/pool2d_test.cpp).
#pragma once

#include "tests/core/cases/convolution_cases.h"

#include <vector>

namespace whisker::test {

/// Windows over few elements; the extents of the result are counted by hand.
struct SmallPool {
  const char* name;
  Shape x;
  Pool2dOptions options;
  Pair y;           ///< rows and columns of the result
  Edges same = {};  ///< padding of PaddingMode::same, counted by hand
};

inline std::vector<SmallPool> small_pools() {
  constexpr PaddingMode same = PaddingMode::same;
  return {
      {"2x2", {2, 6, 4, 3}, {.kernel = 2}, {3, 2}},
      {"one_element", {1, 1, 1, 1}, {.kernel = 1}, {1, 1}},
      {"2x2_odd_image", {1, 7, 5, 17}, {.kernel = 2}, {3, 2}},
      {"2x2_ceil", {1, 7, 5, 2}, {.kernel = 2, .ceil = true}, {4, 3}},
      {"3x3_stride_2_ceil", {1, 6, 7, 3}, {.kernel = 3, .stride = 2, .ceil = true}, {3, 3}},
      {"window_above_image_ceil",
       {2, 2, 1, 3},
       {.kernel = {3, 2}, .stride = 2, .ceil = true},
       {1, 1}},
      {"window_above_height_ceil", {1, 2, 5, 17}, {.kernel = 3, .stride = 2, .ceil = true}, {1, 2}},
      {"window_above_image_pad_1_ceil",
       {1, 2, 1, 8},
       {.kernel = {5, 3}, .stride = 3, .padding = 1, .ceil = true},
       {1, 1}},
      {"count_padding_window_above_image_ceil",
       {1, 2, 1, 2},
       {.kernel = {5, 4}, .stride = 3, .padding = 1, .ceil = true, .count_padding = true},
       {1, 1}},
      {"3x3_stride_2_pad_1", {2, 7, 6, 2}, {.kernel = 3, .stride = 2, .padding = 1}, {4, 3}},
      {"3x3_stride_2_pad_1_ceil",
       {1, 6, 6, 2},
       {.kernel = 3, .stride = 2, .padding = 1, .ceil = true},
       {4, 4}},
      {"ceil_never_starts_in_the_padding",
       {1, 5, 5, 1},
       {.kernel = 2, .stride = 3, .padding = 1, .ceil = true},
       {2, 2}},
      {"3x2_stride_1_overlapping", {1, 5, 4, 2}, {.kernel = {3, 2}, .stride = 1}, {3, 3}},
      {"same_even", {1, 5, 6, 2}, {.kernel = 2, .stride = 1, .padding_mode = same}, {5, 6}},
      {"same_stride_2",
       {1, 5, 6, 2},
       {.kernel = 3, .stride = 2, .padding_mode = same},
       {3, 3},
       {1, 0}},
      {"7x7_global", {2, 7, 7, 8}, {.kernel = 7}, {1, 1}},
      {"global_odd_channels", {2, 6, 5, 3}, {.kernel = {6, 5}}, {1, 1}},
      {"4x3_disjoint", {1, 10, 7, 8}, {.kernel = {4, 3}}, {2, 2}},
      {"stride_above_kernel", {1, 8, 8, 1}, {.kernel = 2, .stride = 3}, {3, 3}},
      {"count_padding",
       {1, 5, 5, 2},
       {.kernel = 3, .stride = 2, .padding = 1, .count_padding = true},
       {3, 3}},
      {"count_padding_global",
       {1, 4, 3, 8},
       {.kernel = {6, 5}, .padding = 1, .count_padding = true},
       {1, 1}},
      {"global_and_padding", {1, 4, 3, 8}, {.kernel = {6, 5}, .padding = 1}, {1, 1}},
      {"count_padding_same",
       {1, 5, 6, 2},
       {.kernel = 3, .stride = 2, .padding_mode = same, .count_padding = true},
       {3, 3},
       {1, 0, 1, 1}},
      {"count_padding_ceil",
       {1, 6, 7, 2},
       {.kernel = 3, .stride = 2, .padding = 1, .ceil = true, .count_padding = true},
       {4, 4}},
      {"count_padding_ceil_without_padding",
       {1, 7, 6, 2},
       {.kernel = {2, 3}, .stride = 2, .ceil = true, .count_padding = true},
       {4, 3}},
  };
}

/// Windows that are small beside the image.
inline std::vector<Pool2dOptions> small_windows() {
  return {{.kernel = 2},
          {.kernel = 2, .padding = 1, .ceil = true},
          {.kernel = 2, .stride = Pair(3), .padding = 1},
          {.kernel = 3},
          {.kernel = 3, .stride = Pair(2), .padding = 1},
          {.kernel = 3, .stride = Pair(2), .padding = 2},
          {.kernel = 3, .stride = Pair(2), .ceil = true},
          {.kernel = 3, .stride = Pair(2), .padding = 1, .ceil = true},
          {.kernel = 3, .stride = Pair(2), .padding_mode = PaddingMode::same},
          {.kernel = 3, .stride = Pair(1), .padding = 1},
          {.kernel = 3, .stride = Pair(1), .padding = 2},
          {.kernel = {3, 2}, .stride = Pair(1), .padding = 1, .count_padding = true},
          {.kernel = {3, 2}, .stride = Pair(2), .padding = 1}};
}

}  // namespace whisker::test
