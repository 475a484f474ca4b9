// One value of a finished picture, from the resampled one: gray, warp, jitter, normalise, erase and
// mix, as every device computes them.
#pragma once

#include "core/picture_arithmetic.h"

namespace whisker {

/// A picture resampled, flipped and placed.
struct PlacedPicture {
  const uint8_t* rgb = nullptr;  // (H, W, 3)
  int height = 0;
  int width = 0;
  bool gray = false;  ///< shown as gray_of() in all three channels
};

constexpr Rgb pixel_of(const PlacedPicture& picture, int y, int x) {
  const uint8_t* rgb = picture.rgb + (int64_t{y} * picture.width + x) * 3;
  if (picture.gray) {
    const auto gray = static_cast<float>(gray_of(rgb));
    return {{gray, gray, gray}};
  }
  return {{static_cast<float>(rgb[0]), static_cast<float>(rgb[1]), static_cast<float>(rgb[2])}};
}

constexpr Rgb warped_pixel(const PictureRecord& record, const PlacedPicture& picture, int row,
                           int column) {
  const double y = row + 0.5 - picture.height / 2.0;
  const double x = column + 0.5 - picture.width / 2.0;
  const WarpPoint across = warp_point(record.warp, x, y, picture.width);
  const WarpPoint down = warp_point(record.warp + 3, x, y, picture.height);
  Rgb corners[4];
  for (int i = 0; i < 4; ++i) {
    const int from_y = fold_index(down.before + i / 2, picture.height, record.fill_mode);
    const int from_x = fold_index(across.before + i % 2, picture.width, record.fill_mode);
    const float fill = record.fill_value;
    corners[i] =
        from_y < 0 || from_x < 0 ? Rgb{{fill, fill, fill}} : pixel_of(picture, from_y, from_x);
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
/// for each contrast step the mean gray of the picture before it.
constexpr Rgb jittered_pixel(const PictureRecord& record, const PlacedPicture& picture,
                             const double* means, int steps, int y, int x) {
  Rgb pixel = record.warps ? warped_pixel(record, picture, y, x) : pixel_of(picture, y, x);
  for (int i = 0; i < steps; ++i) {
    const JitterStep& step = record.jitter[i];
    const bool shifts = step.kind == JitterKind::contrast;
    jitter_pixel(step, shifts ? contrast_shift(step, means[i]) : 0.0f, pixel.v);
  }
  return pixel;
}

/// The network's input at (y, x).
constexpr Rgb finished_pixel(const PictureRecord& record, const PlacedPicture& picture,
                             const double* means, int y, int x) {
  const Rect& erase = record.erase;
  const bool erased = x >= erase.left && x < erase.left + erase.width && y >= erase.top &&
                      y < erase.top + erase.height;
  if (erased) return {{record.erase_value[0], record.erase_value[1], record.erase_value[2]}};
  Rgb pixel = jittered_pixel(record, picture, means, record.jitter_steps, y, x);
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

/// The row before shows at (y, x) instead of the row's own picture.
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
