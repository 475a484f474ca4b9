#include "data/normalise.h"

#include "core/error.h"

#include <cstddef>

namespace whisker {
namespace {

constexpr size_t lanes = 24;  // a multiple of three channels and of eight floats

// The factors repeat every three values; over 24 of them the loop is plain vector code.
[[gnu::always_inline]] inline void scale_and_shift(const uint8_t* from, size_t count,
                                                   const float* factor, const float* offset,
                                                   float* out) {
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (size_t k = 0; k < lanes; ++k) {
      out[i + k] = static_cast<float>(from[i + k]) * factor[k] + offset[k];
    }
  }
  for (; i < count; ++i) out[i] = static_cast<float>(from[i]) * factor[i % 3] + offset[i % 3];
}

void scale_and_shift_portable(const uint8_t* from, size_t count, const float* factor,
                              const float* offset, float* out) {
  scale_and_shift(from, count, factor, offset, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void scale_and_shift_avx2(const uint8_t* from, size_t count,
                                                          const float* factor, const float* offset,
                                                          float* out) {
  scale_and_shift(from, count, factor, offset, out);
}
#endif

using ScaleAndShift = decltype(&scale_and_shift_portable);

ScaleAndShift fastest_scale_and_shift() {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return scale_and_shift_avx2;
#endif
  return scale_and_shift_portable;
}

}  // namespace

void normalise(const Picture& picture, int channels, const Normalisation& normalisation,
               std::span<float> out) {
  const size_t pixels = static_cast<size_t>(picture.height) * static_cast<size_t>(picture.width);
  const size_t expected = pixels * static_cast<size_t>(channels);
  if ((channels != 1 && channels != 3) || out.size() != expected) {
    fail(ErrorKind::internal, "normalise: {}x{} pixels, {} channels, room for {} values",
         picture.width, picture.height, channels, out.size());
  }
  if (channels == 1) {
    const float factor = normalisation.factor(0);
    const float offset = normalisation.offset(0);
    const uint8_t* rgb = picture.rgb.data();
    for (size_t i = 0; i < pixels; ++i, rgb += 3) {
      out[i] = static_cast<float>(gray_of(rgb)) * factor + offset;
    }
    return;
  }
  std::array<float, lanes> factor{};
  std::array<float, lanes> offset{};
  for (size_t k = 0; k < lanes; ++k) {
    factor[k] = normalisation.factor(k % 3);
    offset[k] = normalisation.offset(k % 3);
  }
  fastest_scale_and_shift()(picture.rgb.data(), expected, factor.data(), offset.data(), out.data());
}

}  // namespace whisker
