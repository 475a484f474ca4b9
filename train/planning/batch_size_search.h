// `train.batch_size: auto`: the largest batch that fits into the device's memory, found by running
// steps.
#pragma once

#include "core/communicator/rank_group.h"
#include "train/config/config.h"

#include <cstdint>
#include <string>

namespace whisker {

/// Upper bound of the search.
inline constexpr int64_t largest_auto_batch = 4096;

/// Runs training steps of the real network on real data, and validates beside them, with batches of
/// growing size, until memory runs out, and bisects from there. Within nine tenths of the memory
/// that is free, and what runtime.memory.limit allows; at most largest_auto_batch and the number of
/// training examples, with train.overfit_batches too. For a language model, each row keeps at least
/// data.text.steps tokens to predict, and the validation text must have as many rows (at least
/// one). When the maximum is 32 or less and fits, it is the result; otherwise the result is a
/// multiple of 8, from 8 on. Throws what Experiment throws for `config`; OutOfMemory when not even
/// one example fits, with advice for training, or when the reserve cannot be allocated.
///
/// Of several ranks, which call it together, each searches on its own device, for its part of the
/// batch: the result is the smallest of theirs, times their number.
int64_t find_batch_size(const Config& config, RankGroup& ranks);

/// Replaces `auto` by the result of find_batch_size(), and train.batch_size_per_gpu by the size
/// over all ranks: a configuration that is stored holds no number of ranks. Returns a message for
/// the user; empty when the size is given. Throws usage for a size per GPU that is too large.
std::string settle_batch_size(Config& config, RankGroup& ranks);

/// Both for one process.
int64_t find_batch_size(const Config& config);
std::string settle_batch_size(Config& config);

}  // namespace whisker
