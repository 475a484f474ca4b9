// What the ranks of a run put together on the host: counts of a step and of a validation, carried
// states; and the check that they have the same weights. All functions are collective and do
// nothing for one rank. The ranks' gradients: train/loop/gradient_sum.h.
#pragma once

#include "core/backend/step_state.h"
#include "core/communicator/communicator.h"
#include "train/experiment.h"
#include "train/loop/events.h"
#include "train/metrics/metrics.h"

#include <cstdint>
#include <span>

namespace whisker {

/// `own` with the totals of all ranks, and with the failure of one that failed: of the first whose
/// loss did, else of rank 0. That rank goes on; the others wait here for its error to end them.
StepState of_all_ranks(StepState own, RankGroup& ranks);

/// One rank's seconds of the epoch so far: computing and waiting for data, and waiting for
/// all_reduce().
struct RankSeconds {
  double worked = 0, waited = 0;
};
/// `all` by rank, of two or more.
RankTimes compare_ranks(std::span<const RankSeconds> all);

/// Adds the other ranks' counts.
void add_other_ranks(Metrics& metrics, RankGroup& ranks);

/// The carried states of all rows from each rank's own, and back.
CarriedStates states_of_all_ranks(const CarriedStates& own, RankGroup& ranks);
CarriedStates states_of_rank(const CarriedStates& all, Partition part);

/// A hash of all weights, moments and averages; not of running statistics, which each rank has of
/// its own.
uint64_t hash_of_weights(const Experiment& experiment);
/// Gives every rank rank 0's weights, averages and buffers, then checks by hash that all have the
/// same, frozen ones and moments included. Throws checkpoint otherwise.
void start_from_rank_0(Experiment& experiment);
/// Running statistics are rank 0's: what validation uses and checkpoints hold.
void take_buffers_of_rank_0(Experiment& experiment);

}  // namespace whisker
