// One value of a finished image, from the resampled one: gray, warp, jitter, normalise, erase and
// mix, as every device computes them.
#pragma once

#include "core/image/image_arithmetic.h"

namespace whisker {

/// An image resampled, flipped and placed.
struct PlacedImage {
  const uint8_t* rgb = nullptr;  // (H, W, 3)
  int height = 0;
  int width = 0;
  bool gray = false;  ///< shown as gray_of() in all three channels
};

constexpr Rgb pixel_of(const PlacedImage& image, int y, int x) {
  const uint8_t* rgb = image.rgb + (int64_t{y} * image.width + x) * 3;
  if (image.gray) {
    const auto gray = static_cast<float>(gray_of(rgb));
    return {{gray, gray, gray}};
  }
  return {{static_cast<float>(rgb[0]), static_cast<float>(rgb[1]), static_cast<float>(rgb[2])}};
}

constexpr Rgb warped_pixel(const ImageRecord& record, const PlacedImage& image, int row,
                           int column) {
  const double y = row + 0.5 - image.height / 2.0;
  const double x = column + 0.5 - image.width / 2.0;
  const WarpPoint across = warp_point(record.warp, x, y, image.width);
  const WarpPoint down = warp_point(record.warp + 3, x, y, image.height);
  Rgb corners[4];
  for (int i = 0; i < 4; ++i) {
    const int from_y = fold_index(down.before + i / 2, image.height, record.fill_mode);
    const int from_x = fold_index(across.before + i % 2, image.width, record.fill_mode);
    const float fill = record.fill_value;
    corners[i] =
        from_y < 0 || from_x < 0 ? Rgb{{fill, fill, fill}} : pixel_of(image, from_y, from_x);
  }
  Rgb pixel;
  for (int c = 0; c < 3; ++c) {
    const float of_channel[4] = {corners[0].v[c], corners[1].v[c], corners[2].v[c],
                                 corners[3].v[c]};
    pixel.v[c] = interpolate(of_channel, across.share, down.share);
  }
  return pixel;
}

/// The pixel, in [0, 255], after the first `steps` steps of jitter. `means` (most_jitter_steps):
/// for each contrast step the mean gray of the image before it.
constexpr Rgb jittered_pixel(const ImageRecord& record, const PlacedImage& image,
                             const double* means, int steps, int y, int x) {
  Rgb pixel = record.warps ? warped_pixel(record, image, y, x) : pixel_of(image, y, x);
  for (int i = 0; i < steps; ++i) {
    const JitterStep& step = record.jitter[i];
    const bool shifts = step.kind == JitterKind::contrast;
    jitter_pixel(step, shifts ? contrast_shift(step, means[i]) : 0.0f, pixel.v);
  }
  return pixel;
}

/// The network's input at (y, x).
constexpr Rgb finished_pixel(const ImageRecord& record, const PlacedImage& image,
                             const double* means, int y, int x) {
  const Rect& erase = record.erase;
  const bool erased = x >= erase.left && x < erase.left + erase.width && y >= erase.top &&
                      y < erase.top + erase.height;
  if (erased) return {};
  Rgb pixel = jittered_pixel(record, image, means, record.jitter_steps, y, x);
  for (int c = 0; c < 3; ++c) pixel.v[c] = pixel.v[c] * record.factor[c] + record.shift[c];
  return pixel;
}

/// How one row takes part in its batch's mixing.
struct PixelMix {
  BatchMix::Kind kind = BatchMix::Kind::none;
  float own = 1;
  Rect box{};
};

constexpr PixelMix pixel_mix(const BatchMix& mix) {
  return {.kind = mix.kind, .own = static_cast<float>(mix.lambda), .box = mix.box};
}

/// The row before shows at (y, x) instead of the row's own image.
constexpr bool shows_partner(const PixelMix& mix, int y, int x) {
  return mix.kind == BatchMix::Kind::cutmix && x >= mix.box.left && y >= mix.box.top &&
         x < mix.box.left + mix.box.width && y < mix.box.top + mix.box.height;
}

/// A row's pixel with its partner's.
constexpr Rgb mixed_pixel(const PixelMix& mix, const Rgb& own, const Rgb& partner, int y, int x) {
  if (shows_partner(mix, y, x)) return partner;
  if (mix.kind != BatchMix::Kind::mixup) return own;
  Rgb pixel;
  for (int c = 0; c < 3; ++c) {
    pixel.v[c] = mix.own * own.v[c] + (1 - mix.own) * partner.v[c];
  }
  return pixel;
}

}  // namespace whisker
