// Which parameters a run trains.
#pragma once

#include "layers/builder/model_builder.h"
#include "train/config/config.h"

#include <string>

namespace whisker {

/// Applies freeze, unfreeze_at, unfreeze_last and freeze_norm to a network without an arena. The
/// pattern `backbone` stands for all parameters but those of model.head. Returns a message for the
/// user; "" when nothing is frozen.
std::string freeze_layers(const Config& config, const Model& model);

}  // namespace whisker
