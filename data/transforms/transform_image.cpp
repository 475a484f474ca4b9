#include "data/transforms/transform_image.h"

#include "core/error.h"
#include "core/image/image_pixels.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace whisker {
namespace {

constexpr size_t lanes = 24;  // a multiple of three channels and of eight floats

struct ChannelScale {
  std::array<float, lanes> factor{};
  std::array<float, lanes> shift{};
};

// The factors repeat every three values; over 24 of them the loop is plain vector code.
[[gnu::always_inline]] inline void scale_and_shift(const uint8_t* from, size_t count,
                                                   const ChannelScale& scale, float* out) {
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (size_t k = 0; k < lanes; ++k) {
      out[i + k] = static_cast<float>(from[i + k]) * scale.factor[k] + scale.shift[k];
    }
  }
  for (size_t k = 0; i < count; ++i, ++k) {
    out[i] = static_cast<float>(from[i]) * scale.factor[k] + scale.shift[k];
  }
}

void scale_and_shift_portable(const uint8_t* from, size_t count, const ChannelScale& scale,
                              float* out) {
  scale_and_shift(from, count, scale, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void scale_and_shift_avx2(const uint8_t* from, size_t count,
                                                          const ChannelScale& scale, float* out) {
  scale_and_shift(from, count, scale, out);
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

// 8-bit pixels straight to the output: all that an image without warp and jitter needs.
void normalise(const PlacedImage& image, const ImageRecord& record, std::span<float> out) {
  if (image.gray) {
    const uint8_t* rgb = image.rgb;
    for (float& value : out) {
      value = static_cast<float>(gray_of(rgb)) * record.factor[0] + record.shift[0];
      rgb += 3;
    }
    return;
  }
  ChannelScale scale;
  for (size_t k = 0; k < lanes; ++k) {
    scale.factor[k] = record.factor[k % 3];
    scale.shift[k] = record.shift[k % 3];
  }
  fastest_scale_and_shift()(image.rgb, out.size(), scale, out.data());
}

// The pixels that warp and jitter start from, (H, W, 3) in [0, 255].
void read_pixels(const PlacedImage& image, std::vector<float>& pixels) {
  pixels.resize(static_cast<size_t>(image.height) * static_cast<size_t>(image.width) * 3);
  if (image.gray) {
    for (size_t i = 0; i < pixels.size(); i += 3) {
      std::fill_n(&pixels[i], 3, static_cast<float>(gray_of(image.rgb + i)));
    }
  } else {
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(image.rgb[i]);
  }
}

// warped_pixel() of every pixel, from floats that were read once: four are read for each.
void warp(const ImageRecord& record, const ImageSize& size, const std::vector<float>& from,
          std::vector<float>& to) {
  const auto [height, width] = size;
  const std::array<float, 3> filling = {record.fill_value, record.fill_value, record.fill_value};
  to.resize(from.size());
  float* out = to.data();
  for (int row = 0; row < height; ++row) {
    const double y = row + 0.5 - height / 2.0;
    for (int column = 0; column < width; ++column, out += 3) {
      const double x = column + 0.5 - width / 2.0;
      const WarpPoint across = warp_point(record.warp, x, y, width);
      const WarpPoint down = warp_point(record.warp + 3, x, y, height);
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

// One step, in place, on f32 RGB (H, W, 3) in [0, 255].
void jitter(const JitterStep& step, std::span<float> pixels) {
  const auto amount = static_cast<float>(step.amount);
  switch (step.kind) {
    case JitterKind::brightness:
      for (float& value : pixels) value = clamp_to_byte(value * amount);
      return;
    case JitterKind::contrast: {
      double sum = 0;
      for (size_t i = 0; i < pixels.size(); i += 3) {
        sum += static_cast<double>(jitter_gray(&pixels[i]));
      }
      const float shift = contrast_shift(step, sum / (static_cast<double>(pixels.size()) / 3));
      for (float& value : pixels) value = clamp_to_byte(value * amount + shift);
      return;
    }
    case JitterKind::saturation:
    case JitterKind::hue:
      for (size_t i = 0; i < pixels.size(); i += 3) jitter_pixel(step, 0, &pixels[i]);
      return;
  }
}

void normalise(std::span<const float> pixels, const ImageRecord& record,
               const ImageOutput& output) {
  const auto channels = static_cast<size_t>(output.channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < pixels.size() / 3; ++i) {
      output.values[i * channels + c] = pixels[3 * i + c] * record.factor[c] + record.shift[c];
    }
  }
}

void erase(const Rect& rect, const ImageOutput& output) {
  const auto channels = static_cast<size_t>(output.channels);
  const size_t row = static_cast<size_t>(output.size.width) * channels;
  for (int y = rect.top; y < rect.top + rect.height; ++y) {
    const size_t first = static_cast<size_t>(y) * row + static_cast<size_t>(rect.left) * channels;
    std::ranges::fill(output.values.subspan(first, static_cast<size_t>(rect.width) * channels),
                      0.0f);
  }
}

bool inside(const Rect& rect, const ImageSize& size) {
  return rect.left >= 0 && rect.top >= 0 && rect.width >= 0 && rect.height >= 0 &&
         rect.width <= size.width - rect.left && rect.height <= size.height - rect.top;
}

void check(const ImageView& source, const ImageRecord& record, const ImageOutput& output) {
  const auto& [height, width] = output.size;
  const int channels = output.channels;
  if (height < 1 || width < 1 || (channels != 1 && channels != 3)) {
    fail(ErrorKind::usage, "transform_image: output {}x{} with {} channels; 1 or 3 are possible",
         width, height, channels);
  }
  if (output.values.size() !=
      static_cast<size_t>(height) * static_cast<size_t>(width) * static_cast<size_t>(channels)) {
    fail(ErrorKind::usage, "transform_image: expected memory for {}x{}x{} values, got {}", height,
         width, channels, output.values.size());
  }
  if (record.columns.in != source.width || record.rows.in != source.height) {
    fail(ErrorKind::usage, "transform_image: a record about {}x{} pixels, got {}x{}",
         record.columns.in, record.rows.in, source.width, source.height);
  }
  const Rect& place = record.place;
  if (place.width != record.columns.count || place.height != record.rows.count) {
    fail(ErrorKind::usage, "transform_image: {}x{} pixels are placed on {}x{}",
         record.columns.count, record.rows.count, place.width, place.height);
  }
  for (const Rect& rect : {place, record.erase}) {
    if (!inside(rect, output.size)) {
      fail(ErrorKind::usage,
           "transform_image: rectangle {}x{} at ({},{}) is not inside the {}x{} output", rect.width,
           rect.height, rect.left, rect.top, width, height);
    }
  }
}

Image& resize_and_place(const ImageView& source, const ImageRecord& record, const ImageSize& size,
                        TransformScratch& scratch) {
  resize(source, record, scratch.resized, scratch.resize);
  if (record.place == Rect{0, 0, size.width, size.height}) return scratch.resized;
  place_on_black(scratch.resized, record.place, size.height, size.width, scratch.placed);
  return scratch.placed;
}

}  // namespace

const Image& transform_by_policy(const ImageView& source, ImageRecord& record, ImageSize size,
                                 TransformScratch& scratch, const std::vector<PolicyStep>& policy) {
  Image& image = resize_and_place(source, record, size, scratch);
  apply_policy(policy, image);
  const auto& [height, width] = size;
  record.crop = record.place = {0, 0, width, height};
  record.columns = {width, 0, static_cast<double>(width), width, 0, width};
  record.rows = {height, 0, static_cast<double>(height), height, 0, height};
  record.flip_horizontal = record.flip_vertical = false;
  return image;
}

void transform_image(const ImageView& source, const ImageRecord& record, const ImageOutput& output,
                     TransformScratch& scratch, const std::vector<PolicyStep>& policy) {
  check(source, record, output);
  const auto& [height, width] = output.size;
  Image& image = resize_and_place(source, record, output.size, scratch);
  apply_policy(policy, image);
  const PlacedImage placed{image.rgb.data(), height, width, output.channels == 1};
  if (!record.warps && record.jitter_steps == 0) {
    normalise(placed, record, output.values);
  } else {
    read_pixels(placed, scratch.pixels);
    if (record.warps) {
      warp(record, output.size, scratch.pixels, scratch.warped);
      std::swap(scratch.pixels, scratch.warped);
    }
    for (int i = 0; i < record.jitter_steps; ++i) jitter(record.jitter[i], scratch.pixels);
    normalise(scratch.pixels, record, output);
  }
  erase(record.erase, output);
}

ImageView crop_source(const Decoded& decoded, ImageRecord& record) {
  const auto [view, box] = crop_view(decoded, record.crop);
  record.columns.in = view.width;
  record.columns.from = box.x0;
  record.columns.to = box.x1;
  record.rows.in = view.height;
  record.rows.from = box.y0;
  record.rows.to = box.y1;
  return view;
}

}  // namespace whisker
