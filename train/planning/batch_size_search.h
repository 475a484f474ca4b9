// `train.batch_size: auto`: the largest batch that fits into the device's memory, found by running
// steps.
#pragma once

#include "train/config/config.h"

#include <cstdint>
#include <string>

namespace whisker {

/// Upper bound of the search.
inline constexpr int64_t largest_auto_batch = 4096;

/// `config` as it is after unfreeze_at, and without cached features: where a run needs most time
/// and memory.
Config all_layers_trained(Config config);

/// Runs training steps of the real network on real data, and validates beside them, with batches of
/// growing size, until memory runs out, and bisects from there. Within nine tenths of the memory
/// that is free, and what runtime.memory.limit allows; at most largest_auto_batch and the number of
/// training examples, with train.overfit_batches too. For a language model, each row keeps at least
/// data.text.steps tokens to predict, and the validation text must have as many rows (at least
/// one). When the maximum is 32 or less and fits, it is the result; otherwise the result is a
/// multiple of 8, from 8 on. Throws what Experiment throws for `config`; OutOfMemory when not even
/// one example fits, with advice for training, or when the reserve cannot be allocated.
int64_t find_batch_size(const Config& config);

/// Replaces `auto` by the result of find_batch_size(). Returns a message for the user; empty when
/// the size is given.
std::string settle_batch_size(Config& config);

}  // namespace whisker
