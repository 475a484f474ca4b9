// Max-pooling where the window is known to the compiler: all reads of a thread are under way before
// it looks at the first, which hides their latency.
#pragma once

#include "core/cuda/pool2d_places.cuh"

namespace whisker::cuda {

/// Maxima of windows of KxK.
template <class T, int N, int K>
__global__ void square_max_kernel(Places p, const Pack<T, N>* x, Pack<T, N>* y,
                                  Pack<uint8_t, N>* marks) {
  for_each_place(p, p.h_out, p.w_out, [&](int64_t picture, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    const auto inside = [&](int place) {
      const int row = top + place / K, column = left + place % K;
      return row >= 0 && row < p.h && column >= 0 && column < p.w;
    };
    Pack<T, N> values[K * K];
#pragma unroll
    for (int place = 0; place < K * K; ++place) {
      if (inside(place)) {
        values[place] = x[p.x_at(picture, top + place / K, left + place % K, pack)];
      }
    }
    Winners<N, uint8_t> winners;
#pragma unroll
    for (int place = 0; place < K * K; ++place) {
      if (inside(place)) winners.take(values[place], place);
    }
    winners.store(p.y_at(picture, i, j, pack), y, marks);
  });
}

/// The gradient of maxima of windows of 3x3 with stride 2, by squares of 2x2 picture elements: all
/// that the four windows around a square give to it is read at once. Square (i, j) begins at row
/// 2 i - pad_top; window (i, j) covers it whole, (i - 1, j - 1) its first element.
template <class T, int N>
__global__ void square_gradient_kernel(Places p, int squares_down, int squares_across,
                                       const Pack<uint8_t, N>* marks, const Pack<T, N>* dy,
                                       Pack<T, N>* dx) {
  for_each_place(p, squares_down, squares_across, [&](int64_t picture, int i, int j, int pack) {
    Pack<uint8_t, N> winner[2][2];
    Pack<T, N> gradient[2][2];
    const auto exists = [&](int a, int b) {
      const int row = i - 1 + a, column = j - 1 + b;
      return row >= 0 && row < p.h_out && column >= 0 && column < p.w_out;
    };
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        if (!exists(a, b)) continue;
        const int64_t at = p.y_at(picture, i - 1 + a, j - 1 + b, pack);
        winner[a][b] = marks[at];
        gradient[a][b] = dy[at];
      }
    }
#pragma unroll
    for (int down = 0; down < 2; ++down) {
#pragma unroll
      for (int across = 0; across < 2; ++across) {
        float sum[N] = {};
#pragma unroll
        for (int a = down; a < 2; ++a) {  // the window above sees the square's first row only
#pragma unroll
          for (int b = across; b < 2; ++b) {
            if (!exists(a, b)) continue;
            const int place = (down + 2 * (1 - a)) * 3 + across + 2 * (1 - b);
#pragma unroll
            for (int c = 0; c < N; ++c) {
              if (winner[a][b].at[c] == place) sum[c] += to_f32(gradient[a][b].at[c]);
            }
          }
        }
        const int row = 2 * i - p.pad_top + down, column = 2 * j - p.pad_left + across;
        if (row >= 0 && row < p.h && column >= 0 && column < p.w) {
          dx[p.x_at(picture, row, column, pack)] = rounded<T, N>(sum);
        }
      }
    }
  });
}

}  // namespace whisker::cuda
