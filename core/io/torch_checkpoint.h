// Which tensors of a checkpoint are the network's. Trainers store them beside optimizers, arguments
// and averages, under keys of their own.
#pragma once

#include "core/io/torch_pickle.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace whisker {

/// The option that says which entry of a checkpoint holds the weights, for messages.
inline constexpr const char* weights_key_option = "--weights-key KEY (init.key in a configuration)";

struct TorchWeights {
  std::map<std::string, size_t> views;  ///< by the tensors' names; of equal names the last
  std::vector<std::string> notes;       ///< messages for the user: what was chosen, what left out
  std::string network;  ///< what the trainer calls it: the text `arch`, or args.model; else ""
  std::string library;  ///< "timm" or "torchvision", where the modules tell; else ""
  /// The classes of its outputs, where the checkpoint lists as many as a tensor has rows.
  std::vector<std::string> classes;
};

/// The state_dict of a file, or of a module that was saved whole: what the file holds itself, else
/// under the likeliest of trainers' keys (`state_dict`, `model`, ...), else under the only key with
/// tensors. `key`, words joined by dots, chooses instead: keys, then the beginning of tensors'
/// names, which they lose. Throws checkpoint, naming the keys, where several are as likely or none
/// holds tensors; usage for a key that is not there.
TorchWeights find_torch_weights(const TorchPickle& pickle, const std::string& key,
                                const std::string& file, MemoryBudget& budget);

}  // namespace whisker
