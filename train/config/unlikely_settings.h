// Settings that each act as they say, but are hardly meant together.
#pragma once

#include "data/transforms/preprocess.h"
#include "train/config/config.h"

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// That mean and std are in other units than `scale` times 0..255; "" where they fit. `keys` stands
/// before their names: "data.".
std::string units_note(const Normalisation& normalisation, int channels,
                       std::string_view keys = {});

/// A line for each combination in `config` that is hardly meant.
std::vector<std::string> unlikely_settings(const Config& config);

}  // namespace whisker
