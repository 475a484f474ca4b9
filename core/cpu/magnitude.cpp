// Magnitudes compare as integers: the bits of an f32 without its sign grow with its value, an
// infinity lies above every number and a NaN above infinity.
#include "core/cpu/magnitude.h"

#include "core/cpu/element.h"
#include "core/cpu/parallel.h"
#include "core/cpu/vectorize.h"

#include <atomic>
#include <bit>

namespace whisker::cpu {
namespace {

template <class T>
WHISKER_VECTORIZE uint32_t largest_bits(const T* x, int64_t count) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(load(x[i])) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

}  // namespace

template <class T>
float largest_magnitude(const T* x, int64_t count) {
  std::atomic<uint32_t> largest = 0;
  parallel_ranges(count, pointwise_grain, [&](int64_t begin, int64_t end, int) {
    const uint32_t bits = largest_bits(x + begin, end - begin);
    uint32_t seen = largest.load();
    while (bits > seen && !largest.compare_exchange_weak(seen, bits)) {
    }
  });
  return std::bit_cast<float>(largest.load());
}

template float largest_magnitude(const float*, int64_t);
template float largest_magnitude(const bf16_t*, int64_t);

}  // namespace whisker::cpu
