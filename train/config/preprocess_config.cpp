#include "train/config/preprocess_config.h"

#include "core/io/yaml.h"
#include "layers/builder/presets.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace whisker {

std::optional<Preprocess> preset_preprocess(std::string_view preset) {
  const Preset* found = find_preset(preset);
  if (!found) return std::nullopt;
  const std::string name = fmt::format("preset {}", preset);
  const YamlNode file = YamlNode::parse(found->text, name);
  const YamlNode* data = file.find("data");
  if (!data) return std::nullopt;
  YamlNode root;
  root.set("model", YamlNode::parse(preset, name));
  root.set("data", *data);
  return preprocess_of(read_config_text(root.emit(), name).data);
}

Preprocess preprocess_of(const DataConfig& data) {
  Preprocess preprocess;
  const auto side = static_cast<int>(data.image_size);
  if (data.resize_short > 0 && data.resize_mode == ResizeMode::crop) {
    preprocess.resize_short = static_cast<int>(data.resize_short);
    preprocess.crop = {side, side};
  } else {
    preprocess.size = {side, side};
  }
  preprocess.resize_mode = data.resize_mode;
  preprocess.interpolation = data.interpolation;
  preprocess.antialias = data.antialias;
  preprocess.channels = static_cast<int>(data.channels);
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

}  // namespace whisker
