// Fine-tuning: weights from a file into a network for other data.
#pragma once

#include "core/parameters.h"
#include "layers/model_builder.h"
#include "train/config.h"

#include <string>
#include <vector>

namespace whisker {

/// Loads `init.from` into the model's parameters. The head keeps its initial values when
/// init.new_head allows it and the file's classes are others than `classes`: other names, another
/// order of them or, in a file that names none, another number. Returns what to tell of it. Throws
/// as load_weights does.
std::vector<std::string> load_initial_weights(const InitConfig& init, const Model& model,
                                              ParameterArena& arena,
                                              const std::vector<std::string>& classes);

}  // namespace whisker
