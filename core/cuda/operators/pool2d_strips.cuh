// Max-pooling of small square windows that the compiler knows, in strips: a thread goes down a few
// rows, keeps what two of them share, and has all other reads of a row under way before it looks at
// the first. Elements are taken by words (core/cuda/device/words.cuh); a winner's place is as wide
// as an element. Four blocks to a multiprocessor leave 64 registers, which hold the reads of a row
// of windows.
#pragma once

#include "core/cuda/device/launch.h"
#include "core/cuda/device/words.cuh"
#include "core/cuda/operators/pool2d_places.cuh"

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

/// What becomes of maxima: themselves, and their places where marks are wanted.
template <class T, int N>
struct Maxima {
  static constexpr int blocks = 4;  // on a multiprocessor
  Pack<T, N>* y;
  Pack<uint8_t, N>* marks;

  /// What a thread needs of its channels, read while its first rows are under way.
  __device__ const Maxima& of_channels(int /*pack*/) const { return *this; }
  /// Elements as they are compared.
  __device__ const Words<T, N>& compared(const Words<T, N>& words) const { return words; }
  __device__ void store(int64_t at, const LargestSoFar<T, N>& largest) const {
    largest.store(y + at, marks ? marks + at : nullptr);
  }
};

/// Maxima of windows of KxK with strides of S, all of which see the picture, for `Result` as
/// Maxima. Places beyond it repeat the nearest ones inside, under their marks: who comes again wins
/// over nobody.
template <class T, int N, int K, int S, class Result>
__global__ void __launch_bounds__(block_threads, Result::blocks)
    strip_max_kernel(Places p, int strip, const Pack<T, N>* x, Result result) {
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
    int i = number * strip;
    const int end = min(i + strip, p.h_out);
    int64_t to = p.y_at(picture, i, j, pack);
    Row above[K];
#pragma unroll
    for (int r = 0; r < shared; ++r) above[r] = read(i, r);
    const auto& maxima = result.of_channels(pack);
    const auto largest_of = [&](const Row& row) {
      LargestSoFar<T, N> largest{maxima.compared(row.values[0]),
                                 Words<T, N>::filled(row.first + place[0])};
#pragma unroll
      for (int q = 1; q < K; ++q) {
        largest.take({maxima.compared(row.values[q]), Words<T, N>::filled(row.first + place[q])});
      }
      return largest;
    };
    LargestSoFar<T, N> rows[K];
#pragma unroll
    for (int r = 0; r < shared; ++r) rows[r] = largest_of(above[r]);
    for (; i < end; ++i, to += p.w_out * p.packs) {
      Row below[S];
#pragma unroll
      for (int r = 0; r < S; ++r) below[r] = read(i, shared + r);
#pragma unroll
      for (int r = 0; r < S; ++r) rows[shared + r] = largest_of(below[r]);
      LargestSoFar<T, N> largest = rows[0];
#pragma unroll
      for (int r = 1; r < K; ++r) largest.take(rows[r]);
      maxima.store(to, largest);
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
  /// Word i of the gradient of those elements that won at `place`, 0 elsewhere.
  __device__ uint32_t at(int place, int i) const {
    const uint32_t code = in_lanes<T>(0x6400 + place);
    uint32_t won = winner.at[i] == code ? ~0u : 0u;
    if constexpr (sizeof(T) == 2) {
      won = __heq2_mask(two_elements<half_t>(winner.at[i]), two_elements<half_t>(code));
    }
    return gradient.at[i] & won;
  }
};

/// What becomes of the gradient that four elements gather, two over two: it is dx.
template <class T, int N>
struct GatheredGradient {
  static constexpr int blocks = 4;  // on a multiprocessor
  Pack<T, N>* dx;

  /// What a thread needs of its channels.
  __device__ const GatheredGradient& of_channels(int /*pack*/) const { return *this; }
  struct Read {};
  /// What is read besides of the elements that are inside the picture, before all is waited for.
  template <class Inside, class At>
  __device__ Read read(const Inside&, const At&) const {
    return {};
  }
  /// gathered(e, i): word i of element e.
  template <class Inside, class At, class Gathered>
  __device__ void store(const Read&, const Inside& inside, const At& at,
                        const Gathered& gathered) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Words<T, N> words;
#pragma unroll
      for (int i = 0; i < Words<T, N>::count; ++i) words.at[i] = gathered(e, i);
      if (inside(e)) store_words(dx + at(e), words);
    }
  }
};

/// The gradient of maxima of windows of KxK, K = 2 or 3, with strides of 2, by squares of 2x2
/// picture elements, for `Result` as GatheredGradient: square (i, j) begins where window (i, j)
/// does, at row 2 i - pad_top. It adds up in the windows' order.
template <class T, int N, int K, class Result>
__global__ void __launch_bounds__(block_threads, Result::blocks)
    strip_gradient_kernel(Places p, int squares_down, int squares_across, int strip,
                          const Pack<uint8_t, N>* marks, const Pack<T, N>* dy, Result result) {
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
    const auto& gradient = result.of_channels(pack);
    for (int i = first; i < end; ++i) {
      const int top = 2 * i - p.pad_top;
      const int64_t corner = p.x_at(picture, top, left, pack);
      // Elements 0 and 1 stand over 2 and 3.
      const auto inside = [&](int e) {
        const int row = top + e / 2, column = left + e % 2;
        return row >= 0 && row < p.h && column >= 0 && column < p.w;
      };
      const auto at = [&](int e) { return corner + (e / 2 * p.w + e % 2) * p.packs; };
      const auto read = gradient.read(inside, at);
      const WindowGradient<T, N> beside = window(i, j - 1), own = window(i, j);
      gradient.store(read, inside, at, [&](int e, int word) {
        if constexpr (K == 2) return own.at(e, word);
        if (e == 0) {
          return sum_of<T>(above_left.at(8, word), above.at(6, word), beside.at(2, word),
                           own.at(0, word));
        }
        if (e == 1) return sum_of<T>(above.at(7, word), own.at(1, word));
        if (e == 2) return sum_of<T>(beside.at(5, word), own.at(3, word));
        return own.at(4, word);
      });
      above_left = beside;
      above = own;
    }
  });
}

}  // namespace whisker::cuda
