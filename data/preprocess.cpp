#include "data/preprocess.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

constexpr int max_extent = 65535;

const char* name_of(ResizeMode mode) {
  switch (mode) {
    case ResizeMode::crop:
      return "crop";
    case ResizeMode::squash:
      return "squash";
    case ResizeMode::letterbox:
      return "letterbox";
  }
  return "";
}

}  // namespace

void Preprocess::check() const {
  const bool has_size = size != PictureSize{};
  if (has_size == (resize_short != 0)) {
    fail(ErrorKind::usage, "preprocess: expected either size or resize_short, got {}",
         has_size ? "both" : "neither");
  }
  if (resize_mode != ResizeMode::crop && !has_size) {
    fail(ErrorKind::usage, "preprocess.resize_mode: {} needs size, not resize_short",
         name_of(resize_mode));
  }
  if (resize_mode != ResizeMode::crop && crop != PictureSize{}) {
    fail(ErrorKind::usage, "preprocess.crop: only resize_mode crop has a crop, not {}",
         name_of(resize_mode));
  }
  for (const int extent : {resize_short, size.height, size.width, crop.height, crop.width}) {
    if (extent < 0 || extent > max_extent) {
      fail(ErrorKind::usage, "preprocess: expected extents up to {}, got {}", max_extent, extent);
    }
  }
  const PictureSize room = has_size ? size : PictureSize{resize_short, resize_short};
  if (crop.height > room.height || crop.width > room.width) {
    fail(ErrorKind::usage, "preprocess.crop: {}x{} does not fit the resized {}x{}", crop.width,
         crop.height, room.width, room.height);
  }
  if (channels != 1 && channels != 3) {
    fail(ErrorKind::usage, "preprocess.channels: expected 1 or 3, got {}", channels);
  }
  for (size_t c = 0; c < 3; ++c) {
    if (!std::isfinite(normalisation.mean[c]) || !std::isfinite(normalisation.std[c]) ||
        normalisation.std[c] <= 0 || !std::isfinite(normalisation.scale)) {
      fail(ErrorKind::usage, "preprocess: expected finite scale and mean and a std above 0");
    }
  }
}

PictureSize Preprocess::output() const {
  if (crop != PictureSize{}) return crop;
  if (size != PictureSize{}) return size;
  return {resize_short, resize_short};
}

int centered_offset(int outer, int inner) {
  const int difference = outer - inner;
  const int below = difference >> 1;  // towards minus infinity
  const bool half = (difference & 1) != 0;
  return half && (below & 1) != 0 ? below + 1 : below;
}

PictureSize resized_extents(const Preprocess& preprocess, int height, int width) {
  const PictureSize& size = preprocess.size;
  if (preprocess.resize_short != 0) {
    // torchvision: the long side is truncated.
    const int side = preprocess.resize_short;
    const auto long_side = [side](int64_t longer, int64_t shorter) {
      constexpr int64_t most = 1 << 30;  // a strip one pixel wide may ask for more than an int
      return static_cast<int>(std::min(side * longer / shorter, most));
    };
    if (height < width) return {side, long_side(width, height)};
    return {long_side(height, width), side};
  }
  if (preprocess.resize_mode == ResizeMode::squash) return size;
  const double by_height = static_cast<double>(size.height) / height;
  const double by_width = static_cast<double>(size.width) / width;
  const bool cover = preprocess.resize_mode == ResizeMode::crop;
  if (cover == (by_height > by_width)) {  // the height decides
    const int other = std::max(1, static_cast<int>(std::lround(width * by_height)));
    return {size.height, cover ? std::max(other, size.width) : std::min(other, size.width)};
  }
  const int other = std::max(1, static_cast<int>(std::lround(height * by_width)));
  return {cover ? std::max(other, size.height) : std::min(other, size.height), size.width};
}

void apply(const Preprocess& preprocess, const Picture& picture, std::span<float> out,
           PreprocessScratch& scratch) {
  const PictureSize output = preprocess.output();
  const size_t expected = static_cast<size_t>(output.height) * static_cast<size_t>(output.width) *
                          static_cast<size_t>(preprocess.channels);
  if (out.size() != expected) {
    fail(ErrorKind::usage, "preprocess: room for {} values, {}x{}x{} are written", out.size(),
         output.height, output.width, preprocess.channels);
  }
  const PictureSize resized = resized_extents(preprocess, picture.height, picture.width);
  ResizeOptions options{.height = resized.height,
                        .width = resized.width,
                        .interpolation = preprocess.interpolation,
                        .antialias = preprocess.antialias};
  const int left = centered_offset(resized.width, output.width);
  const int top = centered_offset(resized.height, output.height);
  const bool letterbox = preprocess.resize_mode == ResizeMode::letterbox;
  if (!letterbox) options.window = Rect{left, top, output.width, output.height};
  const Box whole{0, 0, static_cast<double>(picture.width), static_cast<double>(picture.height)};
  resize(PictureView(picture), whole, options, scratch.resized, scratch.resize);
  const Picture* input = &scratch.resized;
  if (letterbox) {
    place_on_black(scratch.resized, {-left, -top, resized.width, resized.height}, output.height,
                   output.width, scratch.placed);
    input = &scratch.placed;
  }
  normalise(*input, preprocess.channels, preprocess.normalisation, out);
}

std::vector<float> apply(const Preprocess& preprocess, const Picture& picture) {
  const PictureSize extents = preprocess.output();
  std::vector<float> out(static_cast<size_t>(extents.height) * static_cast<size_t>(extents.width) *
                         static_cast<size_t>(preprocess.channels));
  PreprocessScratch scratch;
  apply(preprocess, picture, out, scratch);
  return out;
}

}  // namespace whisker
