// Preprocess to and from the JSON that a weights file carries.
#include "core/error.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "data/preprocess.h"

#include <cmath>

namespace whisker {
namespace {

constexpr int max_extent = 65535;

constexpr std::array<std::pair<const char*, ResizeMode>, 3> resize_modes = {
    {{"crop", ResizeMode::crop},
     {"squash", ResizeMode::squash},
     {"letterbox", ResizeMode::letterbox}}};
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

// What the readers below share: the value, its key, and the file for errors.
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

  PictureSize extents() const {
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
  } else {
    static const std::vector<std::string> keys = {
        "resize_short", "size",     "crop",  "resize_mode", "interpolation",
        "antialias",    "channels", "scale", "mean",        "std"};
    const std::string nearest = nearest_name(key, keys);
    fail(ErrorKind::checkpoint, "{}: preprocess: unknown key '{}'{}", field.file, key,
         nearest.empty() ? "" : "; did you mean '" + nearest + "'?");
  }
}

void write_extents(JsonWriter& writer, const char* key, const PictureSize& extents) {
  writer.key(key);
  if (extents.height == extents.width) {
    writer.value(extents.height);
  } else {
    writer.begin_array().value(extents.height).value(extents.width).end_array();
  }
}

void write_per_channel(JsonWriter& writer, const char* key, const std::array<double, 3>& values,
                       int channels) {
  writer.key(key).begin_array();
  for (int c = 0; c < channels; ++c) writer.value(values[static_cast<size_t>(c)]);
  writer.end_array();
}

}  // namespace

std::string Preprocess::json() const {
  JsonWriter writer;
  writer.begin_object();
  if (resize_short != 0) writer.field("resize_short", resize_short);
  if (size != PictureSize{}) write_extents(writer, "size", size);
  if (crop != PictureSize{}) write_extents(writer, "crop", crop);
  writer.field("resize_mode", name_in(resize_modes, resize_mode));
  writer.field("interpolation", name_in(interpolations, interpolation));
  writer.field("antialias", antialias);
  writer.field("channels", name_in(channel_names, channels));
  writer.field("scale", normalisation.scale);
  write_per_channel(writer, "mean", normalisation.mean, channels);
  write_per_channel(writer, "std", normalisation.std, channels);
  writer.end_object();
  return writer.str();
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
