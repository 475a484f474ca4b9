#include "train/model/freeze_layers.h"

#include "core/io/counted.h"
#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

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

// Those of them that unfreeze_last never frees.
int64_t freeze_first_blocks(const Config& config, const Model& model) {
  const ParameterList parameters = model.net->parameters();
  const std::vector<int> behind = blocks_behind(parameters);
  const double freed = std::round(config.unfreeze_last * (1 + std::ranges::max(behind)));
  int64_t frozen = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->frozen_at_first() || behind[i] < freed) continue;
    parameters[i]->set_trainable(false);
    ++frozen;
  }
  return frozen;
}

}  // namespace

std::string freeze_layers(const Config& config, const Model& model) {
  const bool later = config.unfreeze_at > 0;
  const bool reached = later && config.unfreeze_at < config.train.epochs;
  int64_t frozen = model.net->freeze(patterns_of(config, model), later);
  std::string note;
  if (frozen > 0) {
    note = counted(frozen, "parameter tensor is frozen", "parameter tensors are frozen");
    if (reached) {
      note += config.unfreeze_at == 1 ? std::string(" for the first epoch")
                                      : fmt::format(" for the first {} epochs", config.unfreeze_at);
    }
    if (config.unfreeze_last < 1) {
      const int64_t for_good = freeze_first_blocks(config, model);
      if (reached) note += fmt::format(", {} of them for good", for_good);
    }
  }
  frozen = config.freeze_norm ? model.net->freeze_norm() : 0;
  if (frozen > 0) {
    note += fmt::format("{}{} frozen{}", note.empty() ? "" : "; ",
                        counted(frozen, "parameter tensor of normalisation layers is",
                                "parameter tensors of normalisation layers are"),
                        reached ? " for good" : "");
  }
  if (note.empty()) return note;
  const ParameterList parameters = model.net->parameters();
  note += "; trained: " + trained_layers(parameters, TrainedFrom::start);
  if (reached) {
    note += fmt::format("; from epoch {} on: {}", config.unfreeze_at + 1,
                        trained_layers(parameters, TrainedFrom::unfreeze_at));
  }
  return note;
}

std::string trained_layers(const ParameterList& parameters, TrainedFrom from) {
  std::vector<std::string> ranges;
  std::string first, last;  // layers of the present range
  const auto end_range = [&] {
    if (!first.empty()) ranges.push_back(first == last ? first : first + " to " + last);
    first.clear();
  };
  for (const auto& parameter : parameters) {
    if (parameter->is_buffer()) continue;
    const bool waits = from == TrainedFrom::start && parameter->frozen_at_first();
    if (!parameter->trainable() || waits) {
      end_range();
      continue;
    }
    last = parameter->name().substr(0, parameter->name().rfind('.'));
    if (first.empty()) first = last;
  }
  end_range();
  constexpr size_t most = 8;
  if (ranges.empty()) return "none";
  const size_t left_out = ranges.size() > most ? ranges.size() - most : 0;
  ranges.resize(ranges.size() - left_out);
  return fmt::format("{}{}", fmt::join(ranges, ", "),
                     left_out > 0 ? fmt::format(" and {} more", left_out) : std::string());
}

}  // namespace whisker
