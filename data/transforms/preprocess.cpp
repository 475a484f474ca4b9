#include "data/transforms/preprocess.h"

#include "core/error.h"
#include "core/io/json.h"
#include "core/io/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace whisker {
namespace {

constexpr int max_extent = 65535;

constexpr std::array<std::pair<const char*, ResizeMode>, 4> resize_modes = {
    {{"crop", ResizeMode::crop},
     {"squash", ResizeMode::squash},
     {"letterbox", ResizeMode::letterbox},
     {"squash_crop", ResizeMode::squash_crop}}};
constexpr std::array<std::pair<const char*, Interpolation>, 2> interpolations = {
    {{"bilinear", Interpolation::bilinear}, {"bicubic", Interpolation::bicubic}}};
constexpr std::array<std::pair<const char*, int>, 2> channel_names = {{{"RGB", 3}, {"gray", 1}}};

template <class Choices, class T>
const char* name_in(const Choices& choices, const T& value) {
  for (const auto& [name, choice] : choices) {
    if (choice == value) return name;
  }
  fail(ErrorKind::internal, "preprocess: a value without a name");
}

// What the readers below share: a value of the JSON that a weights file carries, its key, and the
// file for errors.
struct Field {
  const JsonValue& value;
  const std::string& key;
  const std::string& file;

  template <class Choices>
  auto choice(const Choices& choices) const {
    std::string names;
    for (const auto& [name, choice] : choices) {
      if (value.as_string() == name) return choice;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    fail(ErrorKind::checkpoint, "{}: preprocess.{}: expected one of {}, got '{}'", file, key, names,
         value.as_string());
  }

  int extent(const JsonValue& number) const {
    const int64_t side = number.as_int();
    if (side < 1 || side > max_extent) {
      fail(ErrorKind::checkpoint, "{}: preprocess.{}: expected 1 to {}, got {}", file, key,
           max_extent, side);
    }
    return static_cast<int>(side);
  }

  int number(int low, int high) const {
    const int64_t given = value.as_int();
    if (given < low || given > high) {
      fail(ErrorKind::checkpoint,
           "{}: preprocess.{}: expected {} to {}, got {}. A newer version of whisker may have "
           "written it.",
           file, key, low, high, given);
    }
    return static_cast<int>(given);
  }

  ImageSize extents() const {
    if (!value.is_array()) return {extent(value), extent(value)};
    if (value.items().size() != 2) {
      fail(ErrorKind::checkpoint,
           "{}: preprocess.{}: expected a number or [height, width], got {} numbers", file, key,
           value.items().size());
    }
    return {extent(value.items()[0]), extent(value.items()[1])};
  }

  // One number for all channels, or one each.
  std::array<double, 3> per_channel() const {
    if (!value.is_array()) return {value.as_double(), value.as_double(), value.as_double()};
    const auto& items = value.items();
    if (items.size() != 1 && items.size() != 3) {
      fail(ErrorKind::checkpoint, "{}: preprocess.{}: expected one number per channel, got {}",
           file, key, items.size());
    }
    const size_t step = items.size() == 3 ? 1 : 0;
    return {items[0].as_double(), items[step].as_double(), items[2 * step].as_double()};
  }
};

void read_field(const Field& field, Preprocess& out) {
  const std::string& key = field.key;
  if (key == "resize_short") {
    out.resize_short = field.extent(field.value);
  } else if (key == "size") {
    out.size = field.extents();
  } else if (key == "crop") {
    out.crop = field.extents();
  } else if (key == "resize_mode") {
    out.resize_mode = field.choice(resize_modes);
  } else if (key == "interpolation") {
    out.interpolation = field.choice(interpolations);
  } else if (key == "antialias") {
    out.antialias = field.value.as_bool();
  } else if (key == "channels") {
    out.channels = field.choice(channel_names);
  } else if (key == "scale") {
    out.normalisation.scale = field.value.as_double();
  } else if (key == "mean") {
    out.normalisation.mean = field.per_channel();
  } else if (key == "std") {
    out.normalisation.std = field.per_channel();
  } else if (key == "rules") {
    out.rules.version = field.number(1, newest_data_rules);
  } else if (key == "png_bits") {
    out.rules.png_bits = field.number(8, 16);
  } else {
    static const std::vector<std::string> keys = {
        "resize_short", "size",  "crop", "resize_mode", "interpolation", "antialias",
        "channels",     "scale", "mean", "std",         "rules",         "png_bits"};
    const std::string nearest = nearest_name(key, keys);
    fail(ErrorKind::checkpoint, "{}: preprocess: unknown key '{}'{}", field.file, key,
         nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
}

void write_extents(JsonWriter& writer, const char* key, const ImageSize& extents) {
  if (extents.height == extents.width) {
    writer.field(key, extents.height);
  } else {
    writer.list(key, std::array{extents.height, extents.width});
  }
}

}  // namespace

void Preprocess::check() const {
  const bool has_size = size != ImageSize{};
  if (has_size == (resize_short != 0)) {
    fail(ErrorKind::usage, "preprocess: expected either size or resize_short, got {}",
         has_size ? "both" : "neither");
  }
  if (resize_mode != ResizeMode::crop && !has_size) {
    fail(ErrorKind::usage, "preprocess.resize_mode: {} needs size, not resize_short",
         name_in(resize_modes, resize_mode));
  }
  const bool crops = resize_mode == ResizeMode::crop || resize_mode == ResizeMode::squash_crop;
  if (!crops && crop != ImageSize{}) {
    fail(ErrorKind::usage,
         "preprocess.crop: only resize_mode crop and squash_crop have a crop, not {}",
         name_in(resize_modes, resize_mode));
  }
  for (const int extent : {resize_short, size.height, size.width, crop.height, crop.width}) {
    if (extent < 0 || extent > max_extent) {
      fail(ErrorKind::usage, "preprocess: expected extents up to {}, got {}", max_extent, extent);
    }
  }
  const ImageSize resized = has_size ? size : ImageSize{resize_short, resize_short};
  if (crop.height > resized.height || crop.width > resized.width) {
    fail(ErrorKind::usage, "preprocess.crop: {}x{} does not fit the resized {}x{}", crop.width,
         crop.height, resized.width, resized.height);
  }
  if (channels != 1 && channels != 3) {
    fail(ErrorKind::usage, "preprocess.channels: expected 1 or 3, got {}", channels);
  }
  const auto check_range = [](const char* key, double value, double low) {
    if (value >= low && value <= most_normalisation) return;
    fail(ErrorKind::usage, "preprocess.{}: expected a number from {} to {}, got {}", key, low,
         most_normalisation, value);
  };
  check_range("scale", normalisation.scale, 1 / most_normalisation);
  for (size_t c = 0; c < 3; ++c) {
    check_range("mean", normalisation.mean[c], -most_normalisation);
    check_range("std", normalisation.std[c], 1 / most_normalisation);
  }
}

ImageSize Preprocess::output() const {
  if (crop != ImageSize{}) return crop;
  if (size != ImageSize{}) return size;
  return {resize_short, resize_short};
}

int centered_offset(int outer, int inner) {
  const int difference = outer - inner;
  const int below = difference >> 1;  // towards minus infinity
  const bool half = (difference & 1) != 0;
  return half && (below & 1) != 0 ? below + 1 : below;
}

ImageSize resized_extents(const Preprocess& preprocess, int height, int width) {
  const ImageSize& size = preprocess.size;
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
  if (preprocess.resize_mode == ResizeMode::squash ||
      preprocess.resize_mode == ResizeMode::squash_crop) {
    return size;
  }
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

ImageRecord preprocess_record(const Preprocess& preprocess, int height, int width) {
  const ImageSize output = preprocess.output();
  const ImageSize resized = resized_extents(preprocess, height, width);
  const int left = centered_offset(resized.width, output.width);
  const int top = centered_offset(resized.height, output.height);
  ImageRecord record;
  record.crop = {0, 0, width, height};
  record.interpolation = preprocess.interpolation;
  record.antialias = preprocess.antialias;
  record.columns = {width, 0, static_cast<double>(width), resized.width, left, output.width};
  record.rows = {height, 0, static_cast<double>(height), resized.height, top, output.height};
  record.place = {0, 0, output.width, output.height};
  if (preprocess.resize_mode == ResizeMode::letterbox) {
    record.columns.first = record.rows.first = 0;
    record.columns.count = resized.width;
    record.rows.count = resized.height;
    record.place = {-left, -top, resized.width, resized.height};
  }
  for (size_t c = 0; c < 3; ++c) {
    record.factor[c] = preprocess.normalisation.factor(c);
    record.shift[c] = preprocess.normalisation.offset(c);
  }
  return record;
}

std::string Preprocess::json() const {
  JsonWriter writer;
  writer.begin_object();
  if (resize_short != 0) writer.field("resize_short", resize_short);
  if (size != ImageSize{}) write_extents(writer, "size", size);
  if (crop != ImageSize{}) write_extents(writer, "crop", crop);
  writer.field("resize_mode", name_in(resize_modes, resize_mode));
  writer.field("interpolation", name_in(interpolations, interpolation));
  writer.field("antialias", antialias);
  writer.field("channels", name_in(channel_names, channels));
  writer.field("scale", normalisation.scale);
  const auto used = static_cast<size_t>(channels);
  writer.list("mean", std::span(normalisation.mean).first(used));
  writer.list("std", std::span(normalisation.std).first(used));
  if (rules.version != 1) writer.field("rules", rules.version);
  if (rules.png_bits != 16) writer.field("png_bits", rules.png_bits);
  return writer.end_object().str();
}

Preprocess Preprocess::from_json(std::string_view text, const std::string& name) {
  Preprocess preprocess;
  const JsonValue root = JsonValue::parse(
      text, {.name = name, .max_depth = 4, .max_values = 100, .kind = ErrorKind::checkpoint});
  for (const auto& [key, value] : root.members()) read_field({value, key, name}, preprocess);
  try {
    preprocess.check();
  } catch (const Error& error) {
    fail(ErrorKind::checkpoint, "{}: {}", name, error.what());
  }
  return preprocess;
}

}  // namespace whisker
