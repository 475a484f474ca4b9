// `train.batch_size: auto`: the largest batch that the device's memory holds, found by trying.
#pragma once

#include "train/config.h"

#include <cstdint>

namespace whisker {

/// No larger batch is tried.
inline constexpr int64_t largest_auto_batch = 4096;

/// Runs training steps of the real network on real data, and validates beside them, with batches of
/// growing size, until memory runs out, and bisects from there. Within nine tenths of the memory
/// that is free, and what runtime.memory.limit allows; at most largest_auto_batch and the number of
/// training examples, with train.overfit_batches too. Of a language model's text at most as many
/// rows as leave each data.text.steps tokens to predict, but one at least, and no more than the
/// validation text can be cut into. Where the most is 32 or fewer and fits, it is the result;
/// otherwise that is a multiple of 8, from 8 on. `config` otherwise as for an Experiment, which
/// throws what it throws; OutOfMemory when not even one example fits, with the advice where it is
/// training that takes too much, or when a reserve that is asked for cannot be had.
int64_t find_batch_size(const Config& config);

}  // namespace whisker
