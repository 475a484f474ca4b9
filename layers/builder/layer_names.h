// Names of layers below one prefix: those that a model file gives, and Keras' for the others.
#pragma once

#include "layers/builder/layer_arguments.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace whisker {

class LayerNames {
 public:
  explicit LayerNames(std::string prefix = {}) : prefix_(std::move(prefix)) {}

  /// The layer's `name` with {i} replaced by `repeat_index` (negative: not inside a repeat), or
  /// Keras' default: conv2d, conv2d_1, ... Throws usage, with the place, for a name that is taken
  /// or is not made of words and dots. With `may_repeat` a taken name gets a number behind it.
  std::string choose(LayerArguments& arguments, const std::string& type, int64_t repeat_index,
                     bool may_repeat = false);
  /// Full dotted name of one of its layers.
  std::string full(const std::string& name) const;

 private:
  std::string prefix_;
  std::map<std::string, int> numbers_;  // next number per type
  std::set<std::string> taken_;
};

}  // namespace whisker
