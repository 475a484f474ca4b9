// The ranks' gradients become those of the whole batch, before the optimizer reads them.
//
// Note [Weighted ranks] Each rank's loss is the mean over its rows. Backward begins with the rank's
// fraction of the batch's rows in place of 1, so that the plain sum over the ranks is the gradient
// of the mean over all rows, however uneven the parts. A rank without rows adds zeros.
//
// Note [Overlap] Buckets are contiguous slices of the arena's gradients, whole parameters each, in
// the order in which backward finishes them: the last layers' first, and the last buckets ever
// smaller, since the sum of what backward finishes last is not hidden. A full bucket's sum is
// enqueued as soon as its last parameter is finished, and runs beside the rest of backward on a
// GPU; on the host it is done at once. What is left, at most one bucket for each run of the arena,
// is summed in one go at the end. Which sums go together and their order are the same on all ranks
// whatever they find, as collectives must be: a rank without rows enqueues them all at the end.
#pragma once

#include "core/communicator/communicator.h"
#include "core/parameters/parameters.h"
#include "core/parameters/step_memory.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace whisker {

class GradientSum {
 public:
  /// Does nothing for one rank. Collective; on GPUs it times sums to choose the bytes of a large
  /// bucket, unless `bucket_bytes` is given: runs that are to repeat bit for bit must not choose.
  GradientSum(const ParameterArena& arena, Communicator& ranks, int64_t bucket_bytes = 0);

  /// Backward begins whose gradients are to be summed.
  void begin();
  /// A parameter's gradient is finished. See BackwardOptions::on_leaf.
  void finished(const Tensor& gradient);
  /// Enqueues the sums of the rest, which must be whole (complete_gradients()); later operators
  /// wait for all. A loss that is not finite on one rank then stops the update on all.
  void enqueue(StepMemory& memory);

  int64_t bucket_bytes() const { return bucket_bytes_; }
  static constexpr int64_t default_bucket_bytes = 16 << 20;

 private:
  struct Bucket {
    Tensor gradients;
    size_t first = 0;    // of its parameters, in the arena's order
    int parameters = 0;  // in it
    int unfinished = 0;
    bool full = false;
  };
  void make_buckets(const ParameterArena& arena);
  void enqueue_full(bool finished_only);

  Communicator& ranks_;
  int64_t bucket_bytes_;
  std::vector<std::shared_ptr<void>> registered_;
  std::vector<Bucket> buckets_;  // full ones, then the rest
  size_t next_ = 0;              // to be enqueued
};

}  // namespace whisker
