// Pooling against direct loops that look at every window cell and skip those off the image.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <limits>

namespace whisker::test {

Values plain_pool2d(const PoolCase& s, bool average, const Values& x) {
  const Pair kernel = s.options.kernel;
  const Pair stride = s.options.stride.value_or(kernel);
  Values y;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t i = 0; i < s.h_out; ++i) {
      for (int64_t j = 0; j < s.w_out; ++j) {
        for (int64_t c = 0; c < s.c; ++c) {
          double sum = 0, largest = -std::numeric_limits<double>::infinity(), seen = 0, counted = 0;
          for (int64_t p = 0; p < kernel.h; ++p) {
            for (int64_t q = 0; q < kernel.w; ++q) {
              const int64_t row = i * stride.h + p - s.top;
              const int64_t column = j * stride.w + q - s.left;
              // Cells of the padded image count, cells beyond it do not.
              counted += row < s.h + s.bottom && column < s.w + s.right;
              if (row < 0 || row >= s.h || column < 0 || column >= s.w) continue;
              const double value =
                  x[static_cast<size_t>(((n * s.h + row) * s.w + column) * s.c + c)];
              sum += value;
              largest = std::max(largest, value);
              ++seen;
            }
          }
          y.push_back(average ? sum / (s.options.count_padding ? counted : seen) : largest);
        }
      }
    }
  }
  return y;
}

namespace {

std::vector<PoolCase> pool2d_cases() {
  constexpr PaddingMode same = PaddingMode::same;
  return {
      {"2x2", 2, 6, 4, 3, {.kernel = 2}, 3, 2},
      {"one_element", 1, 1, 1, 1, {.kernel = 1}, 1, 1},
      {"2x2_odd_image", 1, 7, 5, 17, {.kernel = 2}, 3, 2},
      {"2x2_ceil", 1, 7, 5, 2, {.kernel = 2, .ceil = true}, 4, 3},
      {"3x3_stride_2_ceil", 1, 6, 7, 3, {.kernel = 3, .stride = 2, .ceil = true}, 3, 3},
      {"window_above_image_ceil", 2, 2, 1, 3, {.kernel = {3, 2}, .stride = 2, .ceil = true}, 1, 1},
      {"window_above_height_ceil", 1, 2, 5, 17, {.kernel = 3, .stride = 2, .ceil = true}, 1, 2},
      {"window_above_image_pad_1_ceil",
       1,
       2,
       1,
       8,
       {.kernel = {5, 3}, .stride = 3, .padding = 1, .ceil = true},
       1,
       1,
       1,
       1},
      {"count_padding_window_above_image_ceil",
       1,
       2,
       1,
       2,
       {.kernel = {5, 4}, .stride = 3, .padding = 1, .ceil = true, .count_padding = true},
       1,
       1,
       1,
       1,
       1,
       1},
      {"3x3_stride_2_pad_1", 2, 7, 6, 2, {.kernel = 3, .stride = 2, .padding = 1}, 4, 3, 1, 1},
      {"3x3_stride_2_pad_1_ceil",
       1,
       6,
       6,
       2,
       {.kernel = 3, .stride = 2, .padding = 1, .ceil = true},
       4,
       4,
       1,
       1},
      {"ceil_never_starts_in_the_padding",
       1,
       5,
       5,
       1,
       {.kernel = 2, .stride = 3, .padding = 1, .ceil = true},
       2,
       2,
       1,
       1},
      {"3x2_stride_1_overlapping", 1, 5, 4, 2, {.kernel = {3, 2}, .stride = 1}, 3, 3},
      {"same_even", 1, 5, 6, 2, {.kernel = 2, .stride = 1, .padding_mode = same}, 5, 6},
      {"same_stride_2", 1, 5, 6, 2, {.kernel = 3, .stride = 2, .padding_mode = same}, 3, 3, 1, 0},
      {"7x7_global", 2, 7, 7, 8, {.kernel = 7}, 1, 1},
      {"global_odd_channels", 2, 6, 5, 3, {.kernel = {6, 5}}, 1, 1},
      {"4x3_disjoint", 1, 10, 7, 8, {.kernel = {4, 3}}, 2, 2},
      {"stride_above_kernel", 1, 8, 8, 1, {.kernel = 2, .stride = 3}, 3, 3},
      {"count_padding",
       1,
       5,
       5,
       2,
       {.kernel = 3, .stride = 2, .padding = 1, .count_padding = true},
       3,
       3,
       1,
       1,
       1,
       1},
      {"count_padding_global",
       1,
       4,
       3,
       8,
       {.kernel = {6, 5}, .padding = 1, .count_padding = true},
       1,
       1,
       1,
       1,
       1,
       1},
      {"global_and_padding", 1, 4, 3, 8, {.kernel = {6, 5}, .padding = 1}, 1, 1, 1, 1},
      {"count_padding_same",
       1,
       5,
       6,
       2,
       {.kernel = 3, .stride = 2, .padding_mode = same, .count_padding = true},
       3,
       3,
       1,
       0,
       1,
       1},
      {"count_padding_ceil",
       1,
       6,
       7,
       2,
       {.kernel = 3, .stride = 2, .padding = 1, .ceil = true, .count_padding = true},
       4,
       4,
       1,
       1,
       1,
       1},
      {"count_padding_ceil_without_padding",
       1,
       7,
       6,
       2,
       {.kernel = {2, 3}, .stride = 2, .ceil = true, .count_padding = true},
       4,
       3},
  };
}

/// Mean over rows [i h / h_out, ceil((i + 1) h / h_out)) and such columns.
Values plain_adaptive(const Values& x, int64_t h, int64_t w, int64_t c, int64_t h_out,
                      int64_t w_out) {
  Values y;
  for (int64_t i = 0; i < h_out; ++i) {
    for (int64_t j = 0; j < w_out; ++j) {
      for (int64_t k = 0; k < c; ++k) {
        double sum = 0, seen = 0;
        for (int64_t row = i * h / h_out; row * h_out < (i + 1) * h; ++row) {
          for (int64_t column = j * w / w_out; column * w_out < (j + 1) * w; ++column) {
            sum += x[static_cast<size_t>((row * w + column) * c + k)];
            ++seen;
          }
        }
        y.push_back(sum / seen);
      }
    }
  }
  return y;
}

}  // namespace

std::vector<OpCase> pool2d_rows() {
  std::vector<OpCase> rows;
  for (const PoolCase& s : pool2d_cases()) {
    for (const bool average : {false, true}) {
      rows.push_back({.name = fmt::format("{}_pool2d_{}", average ? "avg" : "max", s.name),
                      .inputs = {variable({s.n, s.h, s.w, s.c})},
                      .op =
                          [s, average](Inputs x) {
                            return average ? avg_pool2d(x[0], s.options)
                                           : max_pool2d(x[0], s.options);
                          },
                      .expected = [s, average](Plain x) { return plain_pool2d(s, average, x[0]); },
                      .twice = Twice::refused,
                      .terms = s.options.kernel.h * s.options.kernel.w});
    }
  }
  for (const auto& [h_out, w_out] : {std::pair<int64_t, int64_t>{3, 5}, {1, 1}, {7, 7}, {9, 4}}) {
    rows.push_back(
        {.name = fmt::format("adaptive_avg_pool2d_{}x{}", h_out, w_out),
         .inputs = {variable({1, 7, 5, 2})},
         .op =
             [h_out = h_out, w_out = w_out](Inputs x) {
               return adaptive_avg_pool2d(x[0], {h_out, w_out});
             },
         .expected = [h_out = h_out, w_out = w_out](
                         Plain x) { return plain_adaptive(x[0], 7, 5, 2, h_out, w_out); },
         // Unequal windows are matrix products, equal ones are a pooling.
         .twice = 7 % h_out == 0 && 5 % w_out == 0 ? Twice::not_at_all : Twice::works,
         .terms = 35});
  }
  rows.push_back({.name = "global_avg_pool2d",
                  .inputs = {variable({2, 3, 5, 4})},
                  .op = [](Inputs x) { return global_avg_pool2d(x[0]); },
                  .expected =
                      [](Plain x) {
                        Values y(8, 0.0);
                        for (size_t i = 0; i < 120; ++i) y[i / 60 * 4 + i % 4] += x[0][i] / 15;
                        return y;
                      },
                  .terms = 15});
  return rows;
}

}  // namespace whisker::test
