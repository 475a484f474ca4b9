#include "train/config/preprocess_config.h"

#include "core/io/text.h"
#include "core/io/yaml.h"
#include "layers/builder/presets.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace whisker {

std::optional<Preprocess> preset_preprocess(std::string_view preset, const YamlNode& own) {
  const Preset* found = find_preset(preset);
  if (!found) return std::nullopt;
  const std::string name = fmt::format("preset {}", preset);
  YamlNode data = merged_key(preset_sections(*found), "data");
  if (data.is_null()) return std::nullopt;
  if (!own.is_null()) data.merge(own);
  YamlNode root;
  root.set("model", YamlNode::parse(preset, name));
  root.set("data", data);
  return preprocess_of(read_config_text(root.emit(), name).data);
}

Preprocess preprocess_of(const DataConfig& data) {
  Preprocess preprocess;
  const auto side = static_cast<int>(data.image_size);
  if (data.resize_short > 0 && data.resize_mode == ResizeMode::crop) {
    preprocess.resize_short = static_cast<int>(data.resize_short);
    preprocess.crop = {side, side};
  } else if (data.resize_short > 0 && data.resize_mode == ResizeMode::squash_crop) {
    const auto whole = static_cast<int>(data.resize_short);
    preprocess.size = {whole, whole};
    preprocess.crop = {side, side};
  } else {
    preprocess.size = {side, side};
  }
  preprocess.resize_mode = data.resize_mode;
  preprocess.interpolation = data.interpolation;
  preprocess.antialias = data.antialias;
  preprocess.channels = static_cast<int>(data.channels);
  preprocess.rules = {.version = static_cast<int>(data.rules),
                      .png_bits = static_cast<int>(data.png_bits.value.value_or(16))};
  preprocess.normalisation.scale = data.scale;
  for (size_t c = 0; c < 3; ++c) {
    preprocess.normalisation.mean[c] = data.mean[std::min(c, data.mean.size() - 1)];
    preprocess.normalisation.std[c] = data.std[std::min(c, data.std.size() - 1)];
  }
  preprocess.check();
  return preprocess;
}

Preprocess training_preprocess_of(const DataConfig& data) {
  if (data.train_image_size == 0) return preprocess_of(data);
  DataConfig training = data;
  training.image_size = data.train_image_size;
  const double ratio =
      static_cast<double>(data.train_image_size) / static_cast<double>(data.image_size);
  training.resize_short = std::lround(static_cast<double>(data.resize_short) * ratio);
  return preprocess_of(training);
}

double gray_of(const std::array<double, 3>& values) {
  const bool one = values[0] == values[1] && values[1] == values[2];
  return one ? values[0] : (values[0] + values[1] + values[2]) / 3;
}

namespace {

// The data section that describes `preprocess`, whose images are square.
std::string data_text(const Preprocess& preprocess) {
  constexpr const char* modes[] = {"crop", "squash", "letterbox", "squash_crop"};
  const Normalisation& normal = preprocess.normalisation;
  const auto channels = static_cast<size_t>(preprocess.channels);
  const int side = preprocess.output().height;
  const int short_side =
      preprocess.resize_short > 0 ? preprocess.resize_short : preprocess.size.height;
  return fmt::format(
      "model: resnet18\ndata: {{image_size: {}, resize_short: {}, resize_mode: {}, interpolation: "
      "{}, "
      "antialias: {}, channels: {}, scale: {}, mean: [{}], std: [{}], rules: {}, png_bits: {}}}\n",
      side, short_side > side ? short_side : 0, modes[static_cast<size_t>(preprocess.resize_mode)],
      preprocess.interpolation == Interpolation::bicubic ? "bicubic" : "bilinear",
      preprocess.antialias, preprocess.channels, normal.scale,
      fmt::join(std::span(normal.mean).first(channels), ", "),
      fmt::join(std::span(normal.std).first(channels), ", "), preprocess.rules.version,
      preprocess.rules.png_bits);
}

bool is_channels(std::string_view setting) {
  return setting == "channels=gray" || setting == "channels=1" || setting == "channels=RGB" ||
         setting == "channels=3";
}

// `stored` with the channels of the last such setting: gray images have the average of mean and
// std.
Preprocess with_channels(Preprocess stored, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    if (!is_channels(setting)) continue;
    const bool gray = setting == "channels=gray" || setting == "channels=1";
    if (gray && stored.channels == 3) {
      stored.normalisation.mean.fill(gray_of(stored.normalisation.mean));
      stored.normalisation.std.fill(gray_of(stored.normalisation.std));
    }
    stored.channels = gray ? 1 : 3;
  }
  return stored;
}

}  // namespace

Preprocess changed_preprocess(const Preprocess& stored, const std::vector<std::string>& settings) {
  const Preprocess preprocess = with_channels(stored, settings);
  const ImageSize size = preprocess.output();
  if (size.height != size.width || preprocess.size.height != preprocess.size.width) {
    fail(ErrorKind::usage,
         "--input: expected weights made for square images, got {}x{}; their preprocessing "
         "cannot be changed",
         size.width, size.height);
  }
  std::vector<std::string> overrides;
  for (const std::string& setting : settings) {
    const std::string key = "data." + setting.substr(0, setting.find('='));
    std::vector<std::string> known;
    for (const std::string_view one : preprocess_keys) known.emplace_back(one.substr(5));
    known.emplace_back("png_bits");
    if (std::ranges::find(known, key.substr(5)) == known.end()) {
      fail(ErrorKind::usage, "--input: expected KEY=VALUE with one of the keys {}, got {}",
           fmt::join(known, ", "), excerpt(setting));
    }
    if (!is_channels(setting)) overrides.push_back("data." + setting);
  }
  return preprocess_of(read_config_text(data_text(preprocess), "--input", overrides).data);
}

std::string replaced_settings(const Preprocess& stored, const Preprocess& changed) {
  const auto data = [](const Preprocess& preprocess) {
    return *YamlNode::parse(data_text(preprocess), "--input").find("data");
  };
  const YamlNode before = data(stored), after = data(changed);
  std::string text;
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] == before[i]) continue;
    const auto value = [](const YamlNode& node) {
      std::string emitted = node.emit();
      while (emitted.ends_with('\n')) emitted.pop_back();
      return emitted;
    };
    text += fmt::format("{}{}={} (was {})", text.empty() ? "" : ", ", after.keys()[i],
                        value(after[i]), value(before[i]));
  }
  return text;
}

}  // namespace whisker
