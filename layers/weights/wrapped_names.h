// Names of tensors under the words with which a trainer's own module wraps the network: `model.` of
// Lightning, `backbone.`, beside tensors of losses and metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// Whether a tensor of that name counts steps and is no parameter: `num_batches_tracked` of a batch
/// norm, `n_averaged` of an AveragedModel.
bool is_counter(std::string_view name);

/// `n_averaged`, which stands beside the averaged network and is none of its tensors.
bool is_average_count(std::string_view name);

/// Names as tensor_names.h translates them, without the words that all of the network's begin with.
struct UnwrappedNames {
  std::vector<std::string> names;  ///< "" of a tensor that stands beside the network
  std::string prefix;              ///< "model.", where the words were taken off; else ""
  /// Prefixes without any of which as many names are accepted, and how many.
  std::vector<std::string> tied = {};
  int64_t tied_names = 0;
};

/// Takes off the prefix, of those that a third of the names have, without which `wanted` accepts
/// the most names; none where two are as good, or the names as they are.
UnwrappedNames unwrapped_names(std::span<const std::string> names,
                               const std::function<bool(std::string_view)>& wanted);

/// `names` without `prefix`, and bare behind it; "" of those that lack it.
std::vector<std::string> without_prefix(std::span<const std::string> names,
                                        const std::string& prefix);

/// Whether `count` names, without counters, are all names, or all under one such prefix: a network
/// of so many tensors may be among them.
bool may_hold(std::span<const std::string> names, int64_t count);

}  // namespace whisker
