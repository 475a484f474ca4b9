#include "data/augment.h"

#include "core/error.h"

namespace whisker {
namespace {

void warp(const AugmentRecord& record, const std::vector<float>& from, std::vector<float>& to) {
  const auto& m = *record.warp;
  const int height = record.height;
  const int width = record.width;
  const auto fill = static_cast<float>(record.fill_value);
  const std::array<float, 3> filling = {fill, fill, fill};
  to.resize(from.size());
  float* out = to.data();
  for (int row = 0; row < height; ++row) {
    const double y = row + 0.5 - height / 2.0;
    for (int column = 0; column < width; ++column, out += 3) {
      const double x = column + 0.5 - width / 2.0;
      const WarpPoint across = warp_point(m.data(), x, y, width);
      const WarpPoint down = warp_point(m.data() + 3, x, y, height);
      const std::array<int, 2> columns = {fold_index(across.before, width, record.fill_mode),
                                          fold_index(across.before + 1, width, record.fill_mode)};
      const std::array<int, 2> rows = {fold_index(down.before, height, record.fill_mode),
                                       fold_index(down.before + 1, height, record.fill_mode)};
      const float* corners[4];
      for (size_t i = 0; i < 4; ++i) {
        const int r = rows[i / 2];
        const int c = columns[i % 2];
        corners[i] = r < 0 || c < 0
                         ? filling.data()
                         : from.data() + (static_cast<size_t>(r) * static_cast<size_t>(width) +
                                          static_cast<size_t>(c)) *
                                             3;
      }
      for (int c = 0; c < 3; ++c) {
        const float of_channel[4] = {corners[0][c], corners[1][c], corners[2][c], corners[3][c]};
        out[c] = interpolate(of_channel, across.share, down.share);
      }
    }
  }
}

void erase(const AugmentRecord& record, std::span<float> out) {
  const Rect& rect = *record.erase;
  const auto channels = static_cast<size_t>(record.channels);
  for (int y = rect.top; y < rect.top + rect.height; ++y) {
    float* row = out.data() + static_cast<size_t>(y) * static_cast<size_t>(record.width) * channels;
    for (int x = rect.left; x < rect.left + rect.width; ++x) {
      for (size_t c = 0; c < channels; ++c) {
        row[static_cast<size_t>(x) * channels + c] = static_cast<float>(record.erase_value[c]);
      }
    }
  }
}

bool inside(const Rect& rect, int height, int width) {
  return rect.left >= 0 && rect.top >= 0 && rect.width >= 0 && rect.height >= 0 &&
         rect.width <= width - rect.left && rect.height <= height - rect.top;
}

void check(const AugmentRecord& record, int full_height, int full_width, size_t room) {
  if (record.height < 1 || record.width < 1 || (record.channels != 1 && record.channels != 3)) {
    fail(ErrorKind::usage, "augment: output {}x{} with {} channels; 1 or 3 are possible",
         record.width, record.height, record.channels);
  }
  if (room != static_cast<size_t>(record.height) * static_cast<size_t>(record.width) *
                  static_cast<size_t>(record.channels)) {
    fail(ErrorKind::usage, "augment: room for {} values, {}x{}x{} are written", room, record.height,
         record.width, record.channels);
  }
  const Rect& crop = record.crop;
  if (!inside(crop, full_height, full_width) || crop.width < 1 || crop.height < 1) {
    fail(ErrorKind::usage, "augment: crop {}x{} at ({},{}) is not inside the {}x{} picture",
         crop.width, crop.height, crop.left, crop.top, full_width, full_height);
  }
  for (const auto& rect : {record.place, record.erase}) {
    if (rect && !inside(*rect, record.height, record.width)) {
      fail(ErrorKind::usage, "augment: rectangle {}x{} at ({},{}) is not inside the {}x{} output",
           rect->width, rect->height, rect->left, rect->top, record.width, record.height);
    }
  }
}

void augment(const CroppedView& cropped, const AugmentRecord& record, std::span<float> out,
             AugmentScratch& scratch) {
  // Flipping while resizing is free; a flip of a placed picture moves its place as well.
  Rect place = record.place.value_or(Rect{0, 0, record.width, record.height});
  if (record.flip_horizontal) place.left = record.width - place.left - place.width;
  if (record.flip_vertical) place.top = record.height - place.top - place.height;
  const ResizeOptions options{.height = place.height,
                              .width = place.width,
                              .interpolation = record.interpolation,
                              .antialias = record.antialias,
                              .flip_horizontal = record.flip_horizontal,
                              .flip_vertical = record.flip_vertical};
  resize(cropped.view, cropped.box, options, scratch.resized, scratch.resize);
  Picture* picture = &scratch.resized;
  if (record.place) {
    place_on_black(scratch.resized, place, record.height, record.width, scratch.placed);
    picture = &scratch.placed;
  }
  if (!record.warp && record.jitter_steps == 0) {
    normalise(*picture, record.channels, record.normalisation, out);
  } else {
    std::vector<float>& pixels = scratch.pixels;
    pixels.resize(picture->rgb.size());
    if (record.channels == 1) {
      for (size_t i = 0; i < pixels.size(); ++i) {
        pixels[i] = static_cast<float>(gray_of(picture->rgb.data() + i / 3 * 3));
      }
    } else {
      for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(picture->rgb[i]);
    }
    if (record.warp) {
      warp(record, pixels, scratch.warped);
      std::swap(pixels, scratch.warped);
    }
    for (int i = 0; i < record.jitter_steps; ++i) {
      jitter(record.jitter[static_cast<size_t>(i)], pixels);
    }
    const auto channels = static_cast<size_t>(record.channels);
    for (size_t c = 0; c < channels; ++c) {
      const float factor = record.normalisation.factor(c);
      const float offset = record.normalisation.offset(c);
      for (size_t i = 0; i < pixels.size() / 3; ++i) {
        out[i * channels + c] = pixels[3 * i + c] * factor + offset;
      }
    }
  }
  if (record.erase) erase(record, out);
}

}  // namespace

void augment_picture(const Decoded& decoded, const AugmentRecord& record, std::span<float> out,
                     AugmentScratch& scratch) {
  check(record, decoded.full_height, decoded.full_width, out.size());
  augment(crop_view(decoded, record.crop), record, out, scratch);
}

void augment_picture(const Picture& picture, const AugmentRecord& record, std::span<float> out,
                     AugmentScratch& scratch) {
  check(record, picture.height, picture.width, out.size());
  const Box whole{0, 0, static_cast<double>(record.crop.width),
                  static_cast<double>(record.crop.height)};
  augment({PictureView(picture, record.crop), whole}, record, out, scratch);
}

}  // namespace whisker
