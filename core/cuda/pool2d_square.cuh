// Max-pooling where the window is known to the compiler: all reads of a thread are under way before
// it looks at the first, which hides their latency.
#pragma once

#include "core/cuda/pool2d_places.cuh"
#include "core/cuda/words.cuh"

namespace whisker::cuda {

/// What a thread has read of a window: element `place` is there where inside(place).
template <class T, int N, int K>
struct Window {
  Pack<T, N> values[K * K];
  unsigned seen = 0;

  __device__ bool inside(int place) const { return (seen >> place & 1) != 0; }

  /// Two elements at a time. True unless a NaN is among them, about whose place masks say nothing.
  __device__ bool store_by_words(int64_t at, Pack<T, N>* y, Pack<uint8_t, N>* marks) const {
    constexpr uint32_t lowest = std::is_same_v<T, half_t> ? 0xfc00fc00u : 0xff80ff80u;
    Pack<T, N> best;
    uint32_t ordered = ~0u;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      word(best, i) = lowest;
#pragma unroll
      for (int place = 0; place < K * K; ++place) {
        if (inside(place)) word(best, i) = larger<T>(word(best, i), word(values[place], i));
      }
      ordered &= equal<T>(word(best, i), word(best, i));
    }
    if (ordered != ~0u) return false;
    y[at] = best;
    if (!marks) return true;
    uint32_t mark[4];  // of two elements each, in halves
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      mark[i] = 0x00ff00ffu;
#pragma unroll
      for (int place = K * K - 1; place >= 0; --place) {  // ties go to the first
        if (!inside(place)) continue;
        const uint32_t here = equal<T>(word(values[place], i), word(best, i));
        mark[i] = (here & static_cast<uint32_t>(place) * 0x00010001u) | (~here & mark[i]);
      }
    }
    Pack<uint8_t, N> bytes;
    word(bytes, 0) = __byte_perm(mark[0], mark[1], 0x6420);
    word(bytes, 1) = __byte_perm(mark[2], mark[3], 0x6420);
    marks[at] = bytes;
    return true;
  }
};

/// Maxima of windows of KxK.
template <class T, int N, int K>
__global__ void square_max_kernel(Places p, const Pack<T, N>* x, Pack<T, N>* y,
                                  Pack<uint8_t, N>* marks) {
  for_each_place(p, p.h_out, p.w_out, [&](int64_t picture, int i, int j, int pack) {
    const int top = i * p.stride_h - p.pad_top;
    const int left = j * p.stride_w - p.pad_left;
    const int64_t first = p.x_at(picture, top, left, pack);
    Window<T, N, K> window;
#pragma unroll
    for (int place = 0; place < K * K; ++place) {
      const int row = top + place / K, column = left + place % K;
      if (row < 0 || row >= p.h || column < 0 || column >= p.w) continue;
      window.seen |= 1u << place;
      window.values[place] = x[first + (place / K * p.w + place % K) * p.packs];
    }
    const int64_t at = p.y_at(picture, i, j, pack);
    if constexpr (N == 8) {
      if (window.store_by_words(at, y, marks)) return;
    }
    Winners<N, uint8_t> winners;
#pragma unroll
    for (int place = 0; place < K * K; ++place) {
      if (window.inside(place)) winners.take(window.values[place], place);
    }
    winners.store(at, y, marks);
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
    Pack<T, N> gradient[2][2] = {};
#pragma unroll
    for (int a = 0; a < 2; ++a) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
#pragma unroll
        for (int c = 0; c < N; ++c) winner[a][b].at[c] = 0xff;  // of a window that is not there
        const int row = i - 1 + a, column = j - 1 + b;
        if (row < 0 || row >= p.h_out || column < 0 || column >= p.w_out) continue;
        const int64_t at = p.y_at(picture, row, column, pack);
        winner[a][b] = marks[at];
        gradient[a][b] = dy[at];
      }
    }
    const int64_t first = p.x_at(picture, 2 * i - p.pad_top, 2 * j - p.pad_left, pack);
#pragma unroll
    for (int down = 0; down < 2; ++down) {
#pragma unroll
      for (int across = 0; across < 2; ++across) {
        // The windows above and to the left see the square's first row and column only.
        const auto share = [&](int a, int b) {
          return at_winner<T, N>(
              gradient[a][b], winner[a][b],
              static_cast<uint32_t>((down + 2 * (1 - a)) * 3 + across + 2 * (1 - b)));
        };
        Pack<T, N> result = share(1, 1);
        if (down == 0 || across == 0) {
          float sum[N] = {};
#pragma unroll
          for (int a = down; a < 2; ++a) {
#pragma unroll
            for (int b = across; b < 2; ++b) {
              const Pack<T, N> term = share(a, b);
#pragma unroll
              for (int c = 0; c < N; ++c) sum[c] += to_f32(term.at[c]);
            }
          }
          result = rounded<T, N>(sum);
        }
        const int row = 2 * i - p.pad_top + down, column = 2 * j - p.pad_left + across;
        if (row >= 0 && row < p.h && column >= 0 && column < p.w) {
          dx[first + (down * p.w + across) * p.packs] = result;
        }
      }
    }
  });
}

}  // namespace whisker::cuda
