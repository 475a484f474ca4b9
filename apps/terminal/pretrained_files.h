// Where downloaded weights of presets lie, how they get there, and what `train --pretrained` begins
// with.
#pragma once

#include "layers/weights/pretrained.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace whisker {

/// The network of `--pretrained` without `--model`: docs/guide/fine_tune.md says why.
inline constexpr std::string_view default_pretrained = "mobilenet_v2";

/// $XDG_DATA_HOME/whisker/weights, else ~/.local/share/whisker/weights; empty without a HOME.
std::filesystem::path weights_folder();
/// The downloaded file; empty where it is not there.
std::filesystem::path downloaded(const PretrainedWeights& weights);

/// The command that downloads them, with scripts/fetch_weights.sh of the sources that the program
/// was built from or of its installation, whichever lies above the program.
std::string fetch_command(const PretrainedWeights& weights);

/// A known name of a network; throws usage with the nearest one.
[[noreturn]] void fail_unknown_model(std::string_view what, const std::string& name);

/// The weights that `--model NAME --pretrained` means; throws usage where none are known.
const PretrainedWeights& pretrained_of(const std::string& model);
/// Their file; throws checkpoint, with the command that downloads it, where it is not there.
std::filesystem::path pretrained_file(const PretrainedWeights& weights);
/// That weights of `model`, or of any network for "", are there and not used; "" where none are.
std::string unused_pretrained_note(const std::string& model);

}  // namespace whisker
