// Collectives on a device's memory, in the order of its operators: nothing for one process, MPI for
// host memory, NCCL for GPUs. See docs/guide/several_gpus.md.
#pragma once

#include "core/communicator/rank_group.h"
#include "core/tensor/device.h"
#include "core/tensor/tensor.h"

#include <memory>
#include <optional>
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
  /// Seconds that this rank's training has waited for all_reduce() since construction: what
  /// backward did not hide, the wait for slower ranks included. Unset: not measured.
  virtual std::optional<double> waited_s() const { return std::nullopt; }

  /// Replaces `tensor` (f32, f64, f16, bf16 or i32) by the sum or minimum over all ranks: the same
  /// bits on each. Enqueued on a GPU, so that a captured step holds it.
  virtual void all_reduce(const Tensor& /*tensor*/, ReduceKind /*kind*/ = ReduceKind::sum) {}
  /// Overwrites `tensor` with rank 0's. Enqueued likewise.
  virtual void broadcast(const Tensor& /*tensor*/) {}
  /// Collectives between the two may be done together.
  virtual void begin_together() {}
  virtual void end_together() {}

 private:
  std::shared_ptr<RankGroup> group_;
};

/// For tensors on `device`, which every rank has one of. Throws device, naming the package, when
/// the library is missing; usage for ranks on a CPU that MPI did not start.
std::shared_ptr<Communicator> make_communicator(std::shared_ptr<RankGroup> group, Device device);

}  // namespace whisker
