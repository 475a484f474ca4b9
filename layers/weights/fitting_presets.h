// The presets that a file's tensors fit. Building a preset makes no tensors, so that all of them
// are compared.
#pragma once

#include "core/io/safetensors.h"
#include "layers/builder/model_builder.h"
#include "layers/builder/presets.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace whisker {

/// The model of a preset that says how ImageNet's images become its input; nothing for others.
std::optional<Model> imagenet_model(const Preset& preset);

struct FittingPreset {
  const Preset* preset;
  int64_t classes;
  bool own_library;  ///< the file's names are those of the preset's library, or of both
};

/// Presets of equal layers are built once, and none whose outermost layers have names that the file
/// lacks.
class FittingPresets {
 public:
  explicit FittingPresets(const SafetensorsFile& file);

  std::optional<FittingPreset> find(const Preset& preset);

 private:
  struct Fit {
    std::optional<int64_t> classes = {};
    std::vector<std::string> names = {};  // of the preset's tensors
  };

  const Fit& fit_of(const Preset& preset, std::span<const YamlNode> sections);
  bool may_be(const YamlNode& section);
  bool has_all(const std::vector<std::string>& wanted) const;
  bool all_named(const std::vector<std::string>& preset_names, bool timm) const;

  const SafetensorsFile& file_;
  std::vector<std::string> names_;
  std::map<std::string, Fit> fits_;
};

}  // namespace whisker
