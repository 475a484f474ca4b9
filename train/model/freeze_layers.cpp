#include "train/model/freeze_layers.h"

#include <algorithm>

namespace whisker {
namespace {

std::vector<std::string> patterns_of(const Config& config, const Model& model) {
  std::vector<std::string> patterns;
  for (const std::string& pattern : config.freeze) {
    if (pattern != "backbone") {
      patterns.push_back(pattern);
      continue;
    }
    for (const auto& parameter : model.net->parameters()) {
      const bool head = std::ranges::any_of(
          model.head, [&](const std::string& layer) { return selects(layer, parameter->name()); });
      if (!head && !parameter->is_buffer()) patterns.push_back(parameter->name());
    }
  }
  return patterns;
}

}  // namespace

std::string freeze_layers(const Config& config, const Model& model) {
  const bool later = config.unfreeze_at > 0;
  int64_t frozen = model.net->freeze(patterns_of(config, model), later);
  std::string note;
  if (frozen > 0) {
    note = fmt::format("{} parameter tensors are frozen", frozen);
    if (later) note += fmt::format(" for the first {} epochs", config.unfreeze_at);
  }
  frozen = config.freeze_norm ? model.net->freeze_norm() : 0;
  if (frozen > 0) {
    note += fmt::format("{}{} parameter tensors of normalisation layers are frozen{}",
                        note.empty() ? "" : "; ", frozen, later ? " for good" : "");
  }
  return note;
}

}  // namespace whisker
