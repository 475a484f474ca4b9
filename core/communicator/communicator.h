// Collectives on a device's memory, in the order of its operators: nothing for one process, MPI for
// host memory, NCCL for GPUs. See docs/guide/several_gpus.md.
#pragma once

#include "core/communicator/rank_group.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

#include <memory>
#include <string>

namespace whisker {

enum class ReduceKind : uint8_t { sum, min };

class Communicator {
 public:
  explicit Communicator(std::shared_ptr<RankGroup> group) : group_(std::move(group)) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  RankGroup& group() const { return *group_; }
  int rank() const { return group_->rank(); }
  int world() const { return group_->world(); }
  /// "NCCL 2.27.3"; "" for one process.
  virtual std::string description() const { return ""; }

  /// Replaces `tensor` (f32, f64, f16, bf16 or i32) by the sum or minimum over all ranks: the same
  /// bits on each. Enqueued on a GPU, so that a captured step holds it.
  virtual void all_reduce(const Tensor& /*tensor*/, ReduceKind /*kind*/ = ReduceKind::sum) {}
  /// Overwrites `tensor` with rank 0's. Enqueued likewise.
  virtual void broadcast(const Tensor& /*tensor*/) {}
  /// Overwrites `all`, as many elements as all ranks' `own`, with them by rank. Enqueued likewise.
  virtual void all_gather(const Tensor& own, const Tensor& all) {
    all.reshape(own.shape()).copy_(own);
  }
  /// Collectives between the two may be done together.
  virtual void begin_together() {}
  virtual void end_together() {}
  /// On a GPU, collectives between the two run beside the operators enqueued later: they wait for
  /// those enqueued so far. On the host they are done when they return, as its operators are.
  virtual void begin_beside() {}
  virtual void end_beside() {}
  /// Later operators wait for all those collectives.
  virtual void join() {}
  /// Seconds that operators waited for collectives at the last join(), for slower ranks as well; 0
  /// while a GPU has not come that far.
  virtual double waited_seconds() const { return 0; }
  /// Collectives on this memory may be faster as long as the result lives. Null where nothing
  /// changes. Graphs that hold such collectives go before it, it before the communicator.
  virtual std::shared_ptr<void> register_memory(const Tensor& /*tensor*/) { return nullptr; }

 private:
  std::shared_ptr<RankGroup> group_;
};

/// A communicator for tensors on `device`, which every rank has one of. Throws device, naming the
/// package, when the library is missing; usage for ranks on a CPU that MPI did not start.
std::shared_ptr<Communicator> make_communicator(std::shared_ptr<RankGroup> group, Device device);

}  // namespace whisker
