#include "data/preprocess.h"

#include "core/error.h"
#include "core/io/text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

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

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> keys = {
      "resize_short", "size",     "crop",  "resize_mode", "interpolation",
      "antialias",    "channels", "scale", "mean",        "std"};
  return keys;
}

// One typed reader per kind of value; each names the key when the type is another.
template <class T>
const T& value_as(const std::string& key, const PreprocessValue& value, const char* expected) {
  const T* typed = std::get_if<T>(&value);
  if (typed == nullptr) fail(ErrorKind::data, "preprocess.{}: expected {}", key, expected);
  return *typed;
}

int extent_from(const std::string& key, double number) {
  if (!(number >= 1 && number <= max_extent) || number != std::floor(number)) {
    fail(ErrorKind::data, "preprocess.{}: expected whole numbers from 1 to {}, got {}", key,
         max_extent, number);
  }
  return static_cast<int>(number);
}

PictureSize extents_from(const std::string& key, const PreprocessValue& value) {
  if (const double* side = std::get_if<double>(&value)) {
    return {extent_from(key, *side), extent_from(key, *side)};
  }
  const auto& sides = value_as<std::vector<double>>(key, value, "a number or [height, width]");
  if (sides.size() != 2) {
    fail(ErrorKind::data, "preprocess.{}: expected a number or [height, width], got {} numbers",
         key, sides.size());
  }
  return {extent_from(key, sides[0]), extent_from(key, sides[1])};
}

PreprocessValue value_of(const PictureSize& extents) {
  if (extents.height == extents.width) return static_cast<double>(extents.height);
  return std::vector<double>{static_cast<double>(extents.height),
                             static_cast<double>(extents.width)};
}

// One number for all channels, or one each.
std::array<double, 3> channels_from(const std::string& key, const PreprocessValue& value) {
  if (const double* same = std::get_if<double>(&value)) return {*same, *same, *same};
  const auto& list = value_as<std::vector<double>>(key, value, "one number per channel");
  if (list.size() == 1) return {list[0], list[0], list[0]};
  if (list.size() != 3) {
    fail(ErrorKind::data, "preprocess.{}: expected one number per channel, got {} numbers", key,
         list.size());
  }
  return {list[0], list[1], list[2]};
}

template <class T>
T one_of(const std::string& key, const PreprocessValue& value,
         std::initializer_list<std::pair<const char*, T>> choices) {
  const auto& text = value_as<std::string>(key, value, "a name");
  std::string names;
  for (const auto& [name, choice] : choices) {
    if (text == name) return choice;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  fail(ErrorKind::data, "preprocess.{}: expected one of {}, got '{}'", key, names, text);
}

void read_field(const std::string& key, const PreprocessValue& value, Preprocess& out) {
  if (key == "resize_short") {
    out.resize_short = extent_from(key, value_as<double>(key, value, "a number"));
  } else if (key == "size") {
    out.size = extents_from(key, value);
  } else if (key == "crop") {
    out.crop = extents_from(key, value);
  } else if (key == "resize_mode") {
    out.resize_mode = one_of<ResizeMode>(key, value,
                                         {{"crop", ResizeMode::crop},
                                          {"squash", ResizeMode::squash},
                                          {"letterbox", ResizeMode::letterbox}});
  } else if (key == "interpolation") {
    out.interpolation = one_of<Interpolation>(
        key, value, {{"bilinear", Interpolation::bilinear}, {"bicubic", Interpolation::bicubic}});
  } else if (key == "antialias") {
    out.antialias = value_as<bool>(key, value, "true or false");
  } else if (key == "channels") {
    out.channels = extent_from(key, value_as<double>(key, value, "1 or 3"));
  } else if (key == "scale") {
    out.normalisation.scale = value_as<double>(key, value, "a number");
  } else if (key == "mean") {
    out.normalisation.mean = channels_from(key, value);
  } else if (key == "std") {
    out.normalisation.std = channels_from(key, value);
  } else {
    const std::string nearest = nearest_name(key, known_keys());
    fail(ErrorKind::data, "preprocess: unknown key '{}'{}", key,
         nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
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

PreprocessFields Preprocess::fields() const {
  PreprocessFields fields;
  if (resize_short != 0) fields.emplace_back("resize_short", static_cast<double>(resize_short));
  if (size != PictureSize{}) fields.emplace_back("size", value_of(size));
  if (crop != PictureSize{}) fields.emplace_back("crop", value_of(crop));
  fields.emplace_back("resize_mode", name_of(resize_mode));
  fields.emplace_back("interpolation",
                      interpolation == Interpolation::bilinear ? "bilinear" : "bicubic");
  fields.emplace_back("antialias", antialias);
  fields.emplace_back("channels", static_cast<double>(channels));
  fields.emplace_back("scale", normalisation.scale);
  const auto per_channel = [&](const std::array<double, 3>& values) {
    return std::vector<double>(values.begin(), values.begin() + channels);
  };
  fields.emplace_back("mean", per_channel(normalisation.mean));
  fields.emplace_back("std", per_channel(normalisation.std));
  return fields;
}

Preprocess Preprocess::from_fields(const PreprocessFields& fields) {
  Preprocess preprocess;
  std::set<std::string> seen;
  for (const auto& [key, value] : fields) {
    if (!seen.insert(key).second) fail(ErrorKind::data, "preprocess: key '{}' given twice", key);
    read_field(key, value, preprocess);
  }
  try {
    preprocess.check();
  } catch (const Error& error) {
    throw Error(ErrorKind::data, error.what());
  }
  return preprocess;
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
    const int64_t side = preprocess.resize_short;
    if (height < width) return {preprocess.resize_short, static_cast<int>(side * width / height)};
    return {static_cast<int>(side * height / width), preprocess.resize_short};
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

namespace {

// Copies the part of `from` that lies in a centered (height, width) window; black around it.
void center(const Picture& from, const PictureSize& extents, Picture& out) {
  const int top = centered_offset(from.height, extents.height);
  const int left = centered_offset(from.width, extents.width);
  out.reshape(extents.height, extents.width);
  std::fill(out.rgb.begin(), out.rgb.end(), uint8_t{0});
  const int x0 = std::max(0, -left);
  const int x1 = std::min(extents.width, from.width - left);
  for (int y = std::max(0, -top); y < std::min(extents.height, from.height - top); ++y) {
    std::memcpy(out.row(y) + ptrdiff_t{3} * x0, from.row(y + top) + ptrdiff_t{3} * (x0 + left),
                static_cast<size_t>(x1 - x0) * 3);
  }
}

}  // namespace

void apply(const Preprocess& preprocess, const Picture& picture, std::span<float> out,
           PreprocessScratch& scratch) {
  const PictureSize resized = resized_extents(preprocess, picture.height, picture.width);
  const Box whole{0, 0, static_cast<double>(picture.width), static_cast<double>(picture.height)};
  resize(PictureView(picture), whole,
         {.height = resized.height,
          .width = resized.width,
          .interpolation = preprocess.interpolation,
          .antialias = preprocess.antialias},
         scratch.resized, scratch.resize);
  const PictureSize extents = preprocess.output();
  const size_t expected = static_cast<size_t>(extents.height) * static_cast<size_t>(extents.width) *
                          static_cast<size_t>(preprocess.channels);
  if (out.size() != expected) {
    fail(ErrorKind::usage, "preprocess: room for {} values, {}x{}x{} are written", out.size(),
         extents.height, extents.width, preprocess.channels);
  }
  if (resized == extents) {
    normalise(scratch.resized, preprocess.channels, preprocess.normalisation, out);
    return;
  }
  center(scratch.resized, extents, scratch.placed);
  normalise(scratch.placed, preprocess.channels, preprocess.normalisation, out);
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
