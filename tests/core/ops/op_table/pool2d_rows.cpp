// Pooling against direct loops that look at every window cell and skip those off the image.
#include "tests/core/ops/op_table/rows.h"

#include <algorithm>
#include <limits>

namespace whisker::test {

Values plain_pool2d(const SmallPool& s, bool average, const Values& x) {
  const Pair kernel = s.options.kernel, padding = s.options.padding;
  const Pair stride = s.options.stride.value_or(kernel);
  const auto [top, left, bottom, right] = s.options.padding_mode == PaddingMode::number
                                              ? Edges{padding.h, padding.w, padding.h, padding.w}
                                              : s.same;
  const int64_t h = s.x[1], w = s.x[2], channels = s.x[3];
  Values y;
  for (int64_t n = 0; n < s.x[0]; ++n) {
    for (int64_t i = 0; i < s.y.h; ++i) {
      for (int64_t j = 0; j < s.y.w; ++j) {
        for (int64_t c = 0; c < channels; ++c) {
          double sum = 0, largest = -std::numeric_limits<double>::infinity(), seen = 0, counted = 0;
          for (int64_t p = 0; p < kernel.h; ++p) {
            for (int64_t q = 0; q < kernel.w; ++q) {
              const int64_t row = i * stride.h + p - top;
              const int64_t column = j * stride.w + q - left;
              // Cells of the padded image count, cells beyond it do not.
              counted += row < h + bottom && column < w + right;
              if (row < 0 || row >= h || column < 0 || column >= w) continue;
              const double value =
                  x[static_cast<size_t>(((n * h + row) * w + column) * channels + c)];
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
  for (const SmallPool& s : small_pools()) {
    for (const bool average : {false, true}) {
      rows.push_back({.name = fmt::format("{}_pool2d_{}", average ? "avg" : "max", s.name),
                      .inputs = {variable(s.x)},
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
