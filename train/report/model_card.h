// README.md of a run folder: a model card in Hugging Face's form
// (https://huggingface.co/docs/hub/model-cards).
#pragma once

#include "train/report/run_record.h"

#include <filesystem>
#include <string>

namespace whisker {

/// What the run knows; what only a person knows is "to be filled in".
std::string model_card(const RunRecord& run);

/// Writes RUN/README.md, unless there is one that is none or was edited. Throws disk.
void write_model_card(const std::filesystem::path& run);

}  // namespace whisker
