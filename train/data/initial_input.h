// What a run on text, rows or a series keeps of the weights that it starts from: the vocabulary, or
// the columns and the scaling. Without them the same numbers would mean something else.
#pragma once

#include "train/config/config.h"
#include "train/model/signature.h"

#include <optional>
#include <string>

namespace whisker {

struct InitialInput {
  InputDescription input;
  std::string file;  ///< the weights, for messages; "": the run's own input, of which all was said
};

/// The input of init.from or, in the configuration of a run folder (InitConfig::run), of that run.
/// Nothing without init.from, for images, for weights that do not describe their input, and where
/// init.skip leaves out the layer that reads it: then the data's own counts. Throws usage for
/// weights of another kind of sequences.
std::optional<InitialInput> initial_input(const Config& config);

/// The initial input as the kind that `Description` is; null where there is none of it.
template <class Description>
const Description* kept_input(const std::optional<InitialInput>& initial) {
  return initial ? std::get_if<Description>(&initial->input) : nullptr;
}

/// What of the training tokens a kept vocabulary lacks. Throws data where it has none of them.
std::string vocabulary_note(const std::string& file, const TextInput& input,
                            const TokenCounts& counts);
/// That `kept` scales the values, and what this run's data would have.
std::string scaling_note(const std::string& file, const Scaling& kept, const Scaling& own);

}  // namespace whisker
