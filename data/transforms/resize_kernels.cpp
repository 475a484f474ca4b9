#include "data/transforms/resize_kernels.h"

#include "core/image/image_arithmetic.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace whisker {
namespace {

int32_t weight_at(const int16_t* halves, int tap) {
  const int16_t* pair = halves + 4 * (tap / 2);
  return (int32_t{pair[tap % 2]} << AxisWeights::low_bits) + pair[2 + tap % 2];
}

void horizontal_portable(const uint8_t* row, const AxisWeights& columns, uint8_t* out) {
  for (int x = 0; x < columns.count(); ++x, out += 3) {
    const int16_t* halves = columns.of(x);
    const uint8_t* from = row + ptrdiff_t{3} * columns.start[static_cast<size_t>(x)];
    int32_t sums[3] = {weight_half, weight_half, weight_half};
    for (int tap = 0; tap < 2 * columns.pairs; ++tap, from += 3) {
      const int32_t weight = weight_at(halves, tap);
      for (int c = 0; c < 3; ++c) sums[c] += weight * from[c];
    }
    for (int c = 0; c < 3; ++c) out[c] = rounded_sample(sums[c]);
  }
}

void horizontal_pair_portable(const uint8_t* row0, const uint8_t* row1, const AxisWeights& columns,
                              uint8_t* out0, uint8_t* out1) {
  horizontal_portable(row0, columns, out0);
  horizontal_portable(row1, columns, out1);
}

// Bytes [begin, bytes) of an output row, in blocks whose sums stay in registers or the first cache.
void vertical_from(size_t begin, const uint8_t* first, ptrdiff_t stride, const uint8_t* end,
                   const int16_t* halves, int pairs, size_t bytes, uint8_t* out) {
  constexpr size_t block = 256;
  for (size_t left = begin; left < bytes; left += block) {
    const size_t count = std::min(block, bytes - left);
    int32_t sums[block];
    std::fill_n(sums, count, weight_half);
    const uint8_t* row = first;
    for (int tap = 0; tap < 2 * pairs && row < end; ++tap, row += stride) {
      const int32_t weight = weight_at(halves, tap);
      for (size_t i = 0; i < count; ++i) sums[i] += weight * row[left + i];
    }
    for (size_t i = 0; i < count; ++i) out[left + i] = rounded_sample(sums[i]);
  }
}

void vertical_portable(const uint8_t* first, ptrdiff_t stride, const uint8_t* end, int i,
                       const AxisWeights& rows, size_t bytes, uint8_t* out) {
  vertical_from(0, first, stride, end, rows.of(i), rows.pairs, bytes, out);
}

#if defined(__x86_64__)
#define WHISKER_AVX2 __attribute__((target("avx2")))

WHISKER_AVX2 inline __m256i broadcast_pair(const int16_t* pair) {
  int32_t both;
  std::memcpy(&both, pair, sizeof both);
  return _mm256_set1_epi32(both);
}

// 16 bytes of row 0 below 16 bytes of row 1.
WHISKER_AVX2 inline __m256i load_rows(const uint8_t* row0, const uint8_t* row1) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row0));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row1));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

// Each 128-bit lane is one row: R, G, B sums of two neighbouring pixels by one multiply-add.
WHISKER_AVX2 void horizontal_pair_avx2(const uint8_t* row0, const uint8_t* row1,
                                       const AxisWeights& columns, uint8_t* out0, uint8_t* out1) {
  const __m256i pixels01 =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 0, -1, 3, -1, 1,
                       -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m256i pixels23 =
      _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i rounding = _mm256_set1_epi32(weight_half);
  const int pairs = columns.pairs;
  const int count = columns.count();
  const int16_t* halves = columns.halves.data();
  for (int x = 0; x < count; ++x, out0 += 3, out1 += 3) {
    const ptrdiff_t offset = ptrdiff_t{3} * columns.start[static_cast<size_t>(x)];
    const uint8_t* from0 = row0 + offset;
    const uint8_t* from1 = row1 + offset;
    __m256i high = _mm256_setzero_si256();
    __m256i low = rounding;
    int pair = 0;
    for (; pair + 1 < pairs; pair += 2, from0 += 12, from1 += 12, halves += 8) {
      const __m256i bytes = load_rows(from0, from1);
      const __m256i a = _mm256_shuffle_epi8(bytes, pixels01);
      const __m256i b = _mm256_shuffle_epi8(bytes, pixels23);
      high = _mm256_add_epi32(high, _mm256_madd_epi16(a, broadcast_pair(halves)));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(a, broadcast_pair(halves + 2)));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(b, broadcast_pair(halves + 4)));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(b, broadcast_pair(halves + 6)));
    }
    if (pair < pairs) {
      const __m256i a = _mm256_shuffle_epi8(load_rows(from0, from1), pixels01);
      high = _mm256_add_epi32(high, _mm256_madd_epi16(a, broadcast_pair(halves)));
      low = _mm256_add_epi32(low, _mm256_madd_epi16(a, broadcast_pair(halves + 2)));
      halves += 4;
    }
    const __m256i sum = _mm256_srai_epi32(
        _mm256_add_epi32(_mm256_slli_epi32(high, AxisWeights::low_bits), low), weight_bits);
    const __m256i words = _mm256_packs_epi32(sum, sum);
    const __m256i packed = _mm256_packus_epi16(words, words);
    const int32_t pixel0 = _mm_cvtsi128_si32(_mm256_castsi256_si128(packed));
    const int32_t pixel1 = _mm_cvtsi128_si32(_mm256_extracti128_si256(packed, 1));
    std::memcpy(out0, &pixel0, 4);
    std::memcpy(out1, &pixel1, 4);
  }
}

WHISKER_AVX2 void horizontal_avx2(const uint8_t* row, const AxisWeights& columns, uint8_t* out) {
  horizontal_pair_avx2(row, row, columns, out, out);
}

// 32 columns at a time; two rows are interleaved so that one multiply-add takes both.
WHISKER_AVX2 void vertical_avx2(const uint8_t* first, ptrdiff_t stride, const uint8_t* end, int i,
                                const AxisWeights& rows, size_t bytes, uint8_t* out) {
  const int16_t* halves = rows.of(i);
  const __m256i zero = _mm256_setzero_si256();
  size_t left = 0;
  for (; left + 32 <= bytes; left += 32) {
    __m256i high[4] = {zero, zero, zero, zero};
    __m256i low[4];
    for (auto& sum : low) sum = _mm256_set1_epi32(weight_half);
    const uint8_t* row = first + left;
    for (int pair = 0; pair < rows.pairs && row < end; ++pair, row += 2 * stride) {
      const __m256i weights_high = broadcast_pair(halves + 4 * pair);
      const __m256i weights_low = broadcast_pair(halves + 4 * pair + 2);
      const uint8_t* next = row + stride < end ? row + stride : row;  // of weight zero past the end
      const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
      const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next));
      const __m256i even = _mm256_unpacklo_epi8(a, b);
      const __m256i odd = _mm256_unpackhi_epi8(a, b);
      const __m256i samples[4] = {_mm256_unpacklo_epi8(even, zero),
                                  _mm256_unpackhi_epi8(even, zero), _mm256_unpacklo_epi8(odd, zero),
                                  _mm256_unpackhi_epi8(odd, zero)};
      for (int k = 0; k < 4; ++k) {
        high[k] = _mm256_add_epi32(high[k], _mm256_madd_epi16(samples[k], weights_high));
        low[k] = _mm256_add_epi32(low[k], _mm256_madd_epi16(samples[k], weights_low));
      }
    }
    for (int k = 0; k < 4; ++k) {
      low[k] = _mm256_srai_epi32(
          _mm256_add_epi32(_mm256_slli_epi32(high[k], AxisWeights::low_bits), low[k]), weight_bits);
    }
    // Packing works within lanes, as unpacking did: the columns are in order again.
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packs_epi32(low[0], low[1]), _mm256_packs_epi32(low[2], low[3]));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + left), packed);
  }
  vertical_from(left, first, stride, end, halves, rows.pairs, bytes, out);
}

constexpr ResizeKernels avx2_kernels = {"avx2", horizontal_avx2, horizontal_pair_avx2,
                                        vertical_avx2};
#endif

constexpr ResizeKernels portable_kernels = {"portable", horizontal_portable,
                                            horizontal_pair_portable, vertical_portable};

}  // namespace

const ResizeKernels& portable_resize_kernels() {
  return portable_kernels;
}

const ResizeKernels& resize_kernels() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return avx2_kernels;
#endif
  return portable_kernels;
}

}  // namespace whisker
