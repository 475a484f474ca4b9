// Fills in the keys of a configuration that other files decide.
#pragma once

#include "train/config/config.h"

#include <filesystem>
#include <string>
#include <vector>

namespace whisker {

/// `config` with the keys that its files decide, so that training from its printed text repeats the
/// run:
/// - the network of `model: from_weights`;
/// - the keys of preprocessing (preprocess_keys) that are not given, from init.from;
/// - the keys of text, rows and series that a kept vocabulary or scaling depends on, likewise;
/// - data.train, data.val and data.test from a folder that holds splits: find_splits();
/// - data.val_split, where no validation data are given;
/// - schedule.restart from unfreeze_at.
/// Adds messages about these to `notes`, unless null, and warnings about given keys that differ
/// from the weights'. Throws usage where a given key contradicts a kept vocabulary or scaling,
/// usage or checkpoint when init.from lacks what the configuration needs.
Config resolve_config(Config config, std::vector<std::string>* notes = nullptr);

/// Whether a test folder is labelled as the training data are, by data.kind and label_pattern; an
/// archive's often is not.
bool is_labelled(const std::filesystem::path& test, const std::filesystem::path& train,
                 const DataConfig& data);

/// `model` of the preset `name`, to start from weights. Where its last layer is a convolution
/// before a global average, as SqueezeNet's, and init.new_head allows it, with a dense layer behind
/// the average instead; init.skip then names the old head.
YamlNode preset_to_fine_tune(const std::string& name, InitConfig& init);

}  // namespace whisker
