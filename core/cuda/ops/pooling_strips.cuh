// Max-pooling of small square windows, with kernel and stride known at compile time. A thread
// computes a strip of consecutive rows: it keeps the rows that two windows share, and starts all
// other reads of a row before it uses the first. Elements are compared as 32-bit words
// (core/cuda/device_code/packed.cuh); an argmax index is as wide as an element. Four blocks per
// multiprocessor leave 64 registers per thread, enough for the reads of one row of windows.
#pragma once

#include "core/cuda/device_code/launch.h"
#include "core/cuda/device_code/packed.cuh"
#include "core/cuda/ops/pooling.cuh"

namespace whisker::cuda {

/// `index` in every element of a word.
template <class T>
__device__ inline uint32_t in_lanes(int index) {
  return static_cast<uint32_t>(index) * (sizeof(T) == 2 ? 0x00010001u : 1u);
}

/// The largest of some elements of each channel, and its index in the window.
template <class T, int N>
struct LargestSoFar {
  Packed<T, N> value, index;

  /// Merges elements with larger indices.
  __device__ void take(const LargestSoFar& later) {
#pragma unroll
    for (int i = 0; i < Packed<T, N>::count; ++i) {
      const uint32_t is_larger = beats<T>(later.value.at[i], value.at[i]);
      value.at[i] = choose(is_larger, later.value.at[i], value.at[i]);
      index.at[i] = choose(is_larger, later.index.at[i], index.at[i]);
    }
  }
  /// These elements, with indices in the window that begins `distance` indices later.
  __device__ LargestSoFar moved_up(int distance) const {
    LargestSoFar moved = *this;
#pragma unroll
    for (int i = 0; i < Packed<T, N>::count; ++i) moved.index.at[i] -= in_lanes<T>(distance);
    return moved;
  }
  __device__ void store(Pack<T, N>* y, Pack<uint8_t, N>* argmax) const {
    store_packed(y, value);
    if (!argmax) return;
    const auto& p = index.at;
    if constexpr (N == 8) {
      *reinterpret_cast<uint2*>(argmax) = {__byte_perm(p[0], p[1], 0x6420),
                                           __byte_perm(p[2], p[3], 0x6420)};
    } else if constexpr (N == 4) {
      *reinterpret_cast<uint32_t*>(argmax) =
          __byte_perm(__byte_perm(p[0], p[1], 0x40), __byte_perm(p[2], p[3], 0x40), 0x5410);
    } else {
      argmax->at[0] = static_cast<uint8_t>(p[0]);
    }
  }
};

/// The result of a kernel of maxima: stores them, and their indices unless argmax is null.
template <class T, int N>
struct Maxima {
  static constexpr int blocks = 4;  // on a multiprocessor
  Pack<T, N>* y;
  Pack<uint8_t, N>* argmax;

  /// Per-channel values of a thread, read while its first rows are being loaded.
  __device__ const Maxima& of_channels(int /*pack*/) const { return *this; }
  /// Elements in the form in which they are compared.
  __device__ const Packed<T, N>& compared(const Packed<T, N>& value) const { return value; }
  __device__ void store(int64_t at, const LargestSoFar<T, N>& largest) const {
    largest.store(y + at, argmax ? argmax + at : nullptr);
  }
};

/// Maxima of KxK windows with stride S, each of which overlaps the image; `Result` as Maxima. A
/// position outside the image reads the nearest one inside, with that one's index: a repeated
/// element never replaces itself.
template <class T, int N, int K, int S, class Result>
__global__ void __launch_bounds__(block_threads, Result::blocks)
    strip_max_kernel(PoolShape p, int strip, const Pack<T, N>* x, Result result) {
  constexpr int shared = K - S;  // rows that the next window below contains too
  const int strips = (p.h_out + strip - 1) / strip;
  for_each_position(p, strips, p.w_out, [&](int64_t image, int number, int j, int pack) {
    const int left = j * S - p.pad_left;
    int column[K];  // as a distance in packs
    uint32_t index[K];
#pragma unroll
    for (int q = 0; q < K; ++q) {
      const int inside = min(max(left + q, 0), p.w - 1);
      column[q] = inside * p.packs;
      index[q] = in_lanes<T>(inside - left);
    }
    const Pack<T, N>* const plane = x + p.x_at(image, 0, 0, pack);
    const auto pitch = static_cast<uint32_t>(p.w * p.packs);
    struct Row {
      Packed<T, N> values[K];
      uint32_t first;  // index of the row
    };
    const auto read = [&](int i, int r) {
      const int top = i * S - p.pad_top;
      const int inside = min(max(top + r, 0), p.h - 1);
      Row row{.values = {}, .first = in_lanes<T>((inside - top) * K)};
      const Pack<T, N>* const from = plane + uint64_t{static_cast<uint32_t>(inside)} * pitch;
#pragma unroll
      for (int q = 0; q < K; ++q) row.values[q] = load_packed(from + column[q]);
      return row;
    };
    int i = number * strip;
    const int end = min(i + strip, p.h_out);
    int64_t to = p.y_at(image, i, j, pack);
    Row above[K];
#pragma unroll
    for (int r = 0; r < shared; ++r) above[r] = read(i, r);
    const auto& maxima = result.of_channels(pack);
    const auto largest_of = [&](const Row& row) {
      LargestSoFar<T, N> largest{maxima.compared(row.values[0]),
                                 Packed<T, N>::filled(row.first + index[0])};
#pragma unroll
      for (int q = 1; q < K; ++q) {
        largest.take({maxima.compared(row.values[q]), Packed<T, N>::filled(row.first + index[q])});
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

/// The gradient of a window and its argmax. Index m is held as the f16 number 1024 + m, so that one
/// instruction compares two of them; 0 for a window outside y.
template <class T, int N>
struct WindowGradient {
  Packed<T, N> gradient = Packed<T, N>::filled(0), index_of_max = Packed<T, N>::filled(0);

  __device__ void load(const Pack<T, N>* dy, const Pack<uint8_t, N>* argmax) {
    gradient = load_packed(dy);
    constexpr uint32_t high = 0x64646464u;  // 0x6400 is 1024
    if constexpr (N == 8) {
      const uint2 bytes = *reinterpret_cast<const uint2*>(argmax);
      index_of_max = {__byte_perm(bytes.x, high, 0x4140), __byte_perm(bytes.x, high, 0x4342),
                      __byte_perm(bytes.y, high, 0x4140), __byte_perm(bytes.y, high, 0x4342)};
    } else if constexpr (N == 4) {
      const uint32_t bytes = *reinterpret_cast<const uint32_t*>(argmax);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) index_of_max.at[i] = (bytes >> 8 * i & 0xff) | 0x6400;
    } else {
      index_of_max.at[0] = argmax->at[0] | 0x6400u;
    }
  }
  /// Word i of the gradient of those elements whose argmax is `index`, 0 elsewhere.
  __device__ uint32_t at(int index, int i) const {
    const uint32_t code = in_lanes<T>(0x6400 + index);
    uint32_t mask = index_of_max.at[i] == code ? ~0u : 0u;
    if constexpr (sizeof(T) == 2) {
      mask = __heq2_mask(two_elements<half_t>(index_of_max.at[i]), two_elements<half_t>(code));
    }
    return gradient.at[i] & mask;
  }
};

/// The result of a gradient kernel: stores the gradient of a square of 2x2 elements as dx.
template <class T, int N>
struct GatheredGradient {
  static constexpr int blocks = 4;  // on a multiprocessor
  Pack<T, N>* dx;

  /// Per-channel values of a thread.
  __device__ const GatheredGradient& of_channels(int /*pack*/) const { return *this; }
  struct Read {};
  /// Further operands of the elements inside the image, loaded along with the gradients.
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
      Packed<T, N> value;
#pragma unroll
      for (int i = 0; i < Packed<T, N>::count; ++i) value.at[i] = gathered(e, i);
      if (inside(e)) store_packed(dx + at(e), value);
    }
  }
};

/// The gradient of max-pooling with KxK windows, K = 2 or 3, and stride 2; `Result` as
/// GatheredGradient. One step computes a square of 2x2 image elements: square (i, j) begins where
/// window (i, j) does, at row 2 i - pad_top. Sums run in the order of the windows.
template <class T, int N, int K, class Result>
__global__ void __launch_bounds__(block_threads, Result::blocks)
    strip_gradient_kernel(PoolShape p, int squares_down, int squares_across, int strip,
                          const Pack<uint8_t, N>* argmax, const Pack<T, N>* dy, Result result) {
  const int strips = (squares_down + strip - 1) / strip;
  for_each_position(p, strips, squares_across, [&](int64_t image, int number, int j, int pack) {
    const auto window = [&](int i, int column) {
      WindowGradient<T, N> read;
      if (i >= 0 && i < p.h_out && column >= 0 && column < p.w_out) {
        const int64_t at = p.y_at(image, i, column, pack);
        read.load(dy + at, argmax + at);
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
      const int64_t corner = p.x_at(image, top, left, pack);
      // Elements 0 and 1 are above 2 and 3.
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
