// Max-pooling of small square windows that the compiler knows, in strips: a thread goes down a few
// rows, keeps what two of them share, and has all other reads of a row under way before it looks at
// the first. Elements are taken by words (words.cuh); a winner's place is as wide as an element.
// Four blocks to a multiprocessor leave 64 registers, which hold the reads of a row of windows.
#pragma once

#include "core/cuda/launch.h"
#include "core/cuda/pool2d_places.cuh"
#include "core/cuda/words.cuh"

namespace whisker::cuda {

/// A place beside every element of a word.
template <class T>
__device__ inline uint32_t in_lanes(int place) {
  return static_cast<uint32_t>(place) * (sizeof(T) == 2 ? 0x00010001u : 1u);
}

/// The largest of some elements of each channel, and its place in the window.
template <class T, int N>
struct LargestSoFar {
  Words<T, N> value, place;

  /// Looks at elements whose places are later.
  __device__ void take(const LargestSoFar& later) {
#pragma unroll
    for (int i = 0; i < Words<T, N>::count; ++i) {
      const uint32_t wins = beats<T>(later.value.at[i], value.at[i]);
      value.at[i] = choose(wins, later.value.at[i], value.at[i]);
      place.at[i] = choose(wins, later.place.at[i], place.at[i]);
    }
  }
  /// For the window whose place 0 is the place `places` of this one.
  __device__ LargestSoFar moved_up(int places) const {
    LargestSoFar moved = *this;
#pragma unroll
    for (int i = 0; i < Words<T, N>::count; ++i) moved.place.at[i] -= in_lanes<T>(places);
    return moved;
  }
  __device__ void store(Pack<T, N>* y, Pack<uint8_t, N>* mark) const {
    store_words(y, value);
    if (!mark) return;
    const auto& p = place.at;
    if constexpr (N == 8) {
      *reinterpret_cast<uint2*>(mark) = {__byte_perm(p[0], p[1], 0x6420),
                                         __byte_perm(p[2], p[3], 0x6420)};
    } else if constexpr (N == 4) {
      *reinterpret_cast<uint32_t*>(mark) =
          __byte_perm(__byte_perm(p[0], p[1], 0x40), __byte_perm(p[2], p[3], 0x40), 0x5410);
    } else {
      mark->at[0] = static_cast<uint8_t>(p[0]);
    }
  }
};

/// Maxima of windows of KxK with strides of S, all of which see the picture. Places beyond it
/// repeat the nearest ones inside, under their marks: who comes again wins over nobody.
template <class T, int N, int K, int S>
__global__ void __launch_bounds__(block_threads, 4)
    strip_max_kernel(Places p, int strip, const Pack<T, N>* x, Pack<T, N>* y,
                     Pack<uint8_t, N>* marks) {
  constexpr int shared = K - S;  // rows that the window below sees, too
  const int strips = (p.h_out + strip - 1) / strip;
  for_each_place(p, strips, p.w_out, [&](int64_t picture, int number, int j, int pack) {
    const int left = j * S - p.pad_left;
    int column[K];  // as a distance in packs
    uint32_t place[K];
#pragma unroll
    for (int q = 0; q < K; ++q) {
      const int inside = min(max(left + q, 0), p.w - 1);
      column[q] = inside * p.packs;
      place[q] = in_lanes<T>(inside - left);
    }
    const Pack<T, N>* const plane = x + p.x_at(picture, 0, 0, pack);
    const auto pitch = static_cast<uint32_t>(p.w * p.packs);
    struct Row {
      Words<T, N> values[K];
      uint32_t first;  // place of the row
    };
    const auto read = [&](int i, int r) {
      const int top = i * S - p.pad_top;
      const int inside = min(max(top + r, 0), p.h - 1);
      Row row{.values = {}, .first = in_lanes<T>((inside - top) * K)};
      const Pack<T, N>* const from = plane + uint64_t{static_cast<uint32_t>(inside)} * pitch;
#pragma unroll
      for (int q = 0; q < K; ++q) row.values[q] = load_words(from + column[q]);
      return row;
    };
    const auto largest_of = [&](const Row& row) {
      LargestSoFar<T, N> largest{row.values[0], Words<T, N>::filled(row.first + place[0])};
#pragma unroll
      for (int q = 1; q < K; ++q) {
        largest.take({row.values[q], Words<T, N>::filled(row.first + place[q])});
      }
      return largest;
    };

    int i = number * strip;
    const int end = min(i + strip, p.h_out);
    int64_t to = p.y_at(picture, i, j, pack);
    LargestSoFar<T, N> rows[K];
#pragma unroll
    for (int r = 0; r < shared; ++r) rows[r] = largest_of(read(i, r));
    for (; i < end; ++i, to += p.w_out * p.packs) {
      Row below[S];
#pragma unroll
      for (int r = 0; r < S; ++r) below[r] = read(i, shared + r);
#pragma unroll
      for (int r = 0; r < S; ++r) rows[shared + r] = largest_of(below[r]);
      LargestSoFar<T, N> largest = rows[0];
#pragma unroll
      for (int r = 1; r < K; ++r) largest.take(rows[r]);
      largest.store(y + to, marks ? marks + to : nullptr);
#pragma unroll
      for (int r = 0; r < shared; ++r) rows[r] = rows[r + S].moved_up(S * K);
    }
  });
}

/// A window's gradient and who gets it. A winner's place m is held as the f16 number 1024 + m, lest
/// comparing two of them take more than one instruction; 0 in a window that is not there.
template <class T, int N>
struct WindowGradient {
  Words<T, N> gradient = Words<T, N>::filled(0), winner = Words<T, N>::filled(0);

  __device__ void load(const Pack<T, N>* dy, const Pack<uint8_t, N>* mark) {
    gradient = load_words(dy);
    constexpr uint32_t high = 0x64646464u;  // 0x6400 is 1024
    if constexpr (N == 8) {
      const uint2 bytes = *reinterpret_cast<const uint2*>(mark);
      winner = {__byte_perm(bytes.x, high, 0x4140), __byte_perm(bytes.x, high, 0x4342),
                __byte_perm(bytes.y, high, 0x4140), __byte_perm(bytes.y, high, 0x4342)};
    } else if constexpr (N == 4) {
      const uint32_t bytes = *reinterpret_cast<const uint32_t*>(mark);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) winner.at[i] = (bytes >> 8 * i & 0xff) | 0x6400;
    } else {
      winner.at[0] = mark->at[0] | 0x6400u;
    }
  }
  /// The gradient of those elements that won at `place`, 0 elsewhere.
  __device__ Words<T, N> at(int place) const {
    const uint32_t code = in_lanes<T>(0x6400 + place);
    Words<T, N> given;
#pragma unroll
    for (int i = 0; i < Words<T, N>::count; ++i) {
      uint32_t won = winner.at[i] == code ? ~0u : 0u;
      if constexpr (sizeof(T) == 2) {
        won = __heq2_mask(two_elements<half_t>(winner.at[i]), two_elements<half_t>(code));
      }
      given.at[i] = gradient.at[i] & won;
    }
    return given;
  }
};

template <class T, int N, class... More>
__device__ Words<T, N> sum(const Words<T, N>& first, const More&... more) {
  Words<T, N> result;
#pragma unroll
  for (int i = 0; i < Words<T, N>::count; ++i) result.at[i] = sum_of<T>(first.at[i], more.at[i]...);
  return result;
}

/// The gradient of maxima of windows of KxK, K = 2 or 3, with strides of 2, by squares of 2x2
/// picture elements: square (i, j) begins where window (i, j) does, at row 2 i - pad_top. It adds
/// up in the windows' order.
template <class T, int N, int K>
__global__ void __launch_bounds__(block_threads, 4)
    strip_gradient_kernel(Places p, int squares_down, int squares_across, int strip,
                          const Pack<uint8_t, N>* marks, const Pack<T, N>* dy, Pack<T, N>* dx) {
  const int strips = (squares_down + strip - 1) / strip;
  for_each_place(p, strips, squares_across, [&](int64_t picture, int number, int j, int pack) {
    const auto window = [&](int i, int column) {
      WindowGradient<T, N> read;
      if (i >= 0 && i < p.h_out && column >= 0 && column < p.w_out) {
        const int64_t at = p.y_at(picture, i, column, pack);
        read.load(dy + at, marks + at);
      }
      return read;
    };
    const int left = 2 * j - p.pad_left;
    const int first = number * strip;
    const int end = min(first + strip, squares_down);
    WindowGradient<T, N> above_left = window(first - 1, j - 1), above = window(first - 1, j);
    for (int i = first; i < end; ++i) {
      const WindowGradient<T, N> beside = window(i, j - 1), own = window(i, j);
      const int top = 2 * i - p.pad_top;
      const int64_t corner = p.x_at(picture, top, left, pack);
      const auto put = [&](int down, int across, const Words<T, N>& value) {
        const int row = top + down, column = left + across;
        if (row < 0 || row >= p.h || column < 0 || column >= p.w) return;
        store_words(dx + corner + (down * p.w + across) * p.packs, value);
      };
      if constexpr (K == 3) {
        put(0, 0, sum(above_left.at(8), above.at(6), beside.at(2), own.at(0)));
        put(0, 1, sum(above.at(7), own.at(1)));
        put(1, 0, sum(beside.at(5), own.at(3)));
        put(1, 1, own.at(4));
      } else {
        put(0, 0, own.at(0));
        put(0, 1, own.at(1));
        put(1, 0, own.at(2));
        put(1, 1, own.at(3));
      }
      above_left = beside;
      above = own;
    }
  });
}

}  // namespace whisker::cuda
