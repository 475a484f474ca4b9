// Which parameters a run trains.
#pragma once

#include "layers/builder/model_builder.h"
#include "train/config/config.h"

#include <cstdint>
#include <string>

namespace whisker {

/// Applies freeze, unfreeze_at, unfreeze_last and freeze_norm to a network without an arena. The
/// pattern `backbone` stands for all parameters but those of model.head. Returns a message for the
/// user; "" when nothing is frozen.
std::string freeze_layers(const Config& config, const Model& model);

/// "layer4.0.conv1 to head": the layers with parameters that are trained from the first epoch on,
/// or from `unfreeze_at` on; "none".
enum class TrainedFrom : uint8_t { start, unfreeze_at };
std::string trained_layers(const ParameterList& parameters, TrainedFrom from);

}  // namespace whisker
