// Fine-tuning: weights from a file into a network for other data.
#pragma once

#include "core/parameters/parameters.h"
#include "layers/builder/model_builder.h"
#include "train/config/config.h"

#include <string>
#include <vector>

namespace whisker {

struct InitialWeights {
  std::vector<std::string> notes;  ///< messages for the user
  int64_t batches_tracked = 0;     ///< num_batches_tracked continues from LoadReport's
};

/// Loads `init.from` into the model's parameters. The head keeps its initial values when
/// init.new_head allows it and the file's classes differ from `classes`: in names or order or, in a
/// file without names, in number. Throws as load_weights does.
InitialWeights load_initial_weights(const InitConfig& init, const Model& model,
                                    ParameterArena& arena, const std::vector<std::string>& classes);

}  // namespace whisker
