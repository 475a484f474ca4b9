// Fine-tuning: weights from a file into a network for other data.
#pragma once

#include "core/parameters/parameters.h"
#include "layers/builder/model_builder.h"
#include "train/config/config.h"
#include "train/model/signature.h"

#include <string>
#include <vector>

namespace whisker {

struct InitialWeights {
  std::vector<std::string> notes;  ///< messages for the user
  int64_t batches_tracked = 0;     ///< num_batches_tracked continues from LoadReport's
};

/// Loads `init.from` into the model's parameters. The head keeps its initial values when
/// init.new_head allows it and what its outputs stand for differs from `signature`: classes in
/// names or order, tokens of a language model, or what is forecast. Outputs without names are
/// numbered from 0 where the classes are these numbers; else those of as many classes are taken for
/// them in their order. By data.rules 1 and 2 (older runs) only classes that both name are
/// compared. Throws as load_weights does.
InitialWeights load_initial_weights(const Config& config, const Model& model, ParameterArena& arena,
                                    const Signature& signature);

}  // namespace whisker
