// How images become a network's input, as files of Hugging Face say it: pretrained_cfg of timm's
// config.json, and preprocessor_config.json of transformers.
#pragma once

#include "data/transforms/preprocess.h"
#include "train/model/hub_json.h"
#include "train/model/hub_network.h"

#include <string>
#include <string_view>

namespace whisker {

/// What timm.data.create_transform does for evaluation. Throws checkpoint for what Preprocess
/// cannot say.
Preprocess timm_images(HubJson& config);

/// What transformers' image processor does that the file names, else the one of `model_type`; sizes
/// that it lacks are those of `network`. Throws checkpoint for what Preprocess cannot say, and for
/// another size than that of a network of one size.
Preprocess transformers_images(HubJson& processor, std::string_view model_type,
                               const HubNetwork& network);

}  // namespace whisker
