// How images become a network's input: from the data section, and as presets' weights expect.
#pragma once

#include "core/io/yaml.h"
#include "data/transforms/preprocess.h"
#include "train/config/config.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// In Config::given: an override of data.image_size changed data.resize_short in proportion; one of
/// data.channels averaged data.mean and data.std. For resolve_config() to say.
inline constexpr std::string_view crop_follows_size = "data.resize_short of data.image_size",
                                  mean_follows_channels = "data.mean of data.channels";

/// The preprocessing that a preset's ImageNet weights expect; nothing for other names. `own` is
/// what some of its weights have of the data section: WeightsTag::data.
std::optional<Preprocess> preset_preprocess(std::string_view preset, const YamlNode& own = {});
/// The preprocessing that the data section describes.
Preprocess preprocess_of(const DataConfig& data);
/// The preprocessing of training images, before augmentation: data.train_image_size high and wide.
Preprocess training_preprocess_of(const DataConfig& data);

/// What mean or std of three channels are for gray images: their average, as in timm; exactly the
/// one where all are equal.
double gray_of(const std::array<double, 3>& values);

/// `preprocess` with other values for keys of the data section, "image_size=288"; resize_short
/// keeps its proportion to the size unless it is among them. Throws usage for other keys and bad
/// values.
Preprocess changed_preprocess(const Preprocess& preprocess,
                              const std::vector<std::string>& settings);
/// What changed_preprocess() changed: "scale=1 (was 0.00392), mean=[124] (was [0.48])"; "" for
/// nothing.
std::string replaced_settings(const Preprocess& stored, const Preprocess& changed);

}  // namespace whisker
