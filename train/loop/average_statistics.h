// The running statistics of batch norms for averaged weights.
//
// Note [Statistics of averaged weights] Running statistics are means over the activations that the
// live weights gave. Averaged weights give others, and an average of running statistics is not of
// them either: early on it is mostly the initial 0 and 1. So they are measured: the mean over the
// statistics of training batches that the averaged weights run forward (as
// torch.optim.swa_utils.update_bn does over all of them).
#pragma once

#include "train/experiment.h"
#include "train/loop/train_step.h"

#include <atomic>
#include <cstdint>

namespace whisker {

/// Overwrites the statistics of the batch norms that training trains, for the weights that are live
/// now, with the means over the first full batches of `epoch`, examples_to_measure in all. Ends the
/// training loader's epoch. False, doing nothing, without such norms. Once *stop is not 0 it breaks
/// off, unless its batches are collective (train.sync_batch_norm).
bool measure_statistics(Experiment& experiment, TrainStep& step, int64_t epoch,
                        const std::atomic<int>& stop);

}  // namespace whisker
