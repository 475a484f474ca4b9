// Collectives of GPUs, one process each, enqueued on the compute stream or beside it.
#pragma once

#include "core/communicator/communicator.h"
#include "core/nvidia/cuda_library.h"
#include "core/nvidia/nccl.h"

#include <atomic>
#include <memory>

namespace whisker {

class NcclCommunicator final : public Communicator, private Collectives {
 public:
  /// Collective: rank 0's id reaches the others through `group`.
  NcclCommunicator(std::shared_ptr<RankGroup> group, Device device);
  /// Graphs that hold its collectives are destroyed before.
  ~NcclCommunicator() override;
  std::string description() const override;
  void all_reduce(const Tensor& tensor, ReduceKind kind) override;
  void broadcast(const Tensor& tensor) override;
  void all_gather(const Tensor& own, const Tensor& all) override;
  void begin_together() override { nccl_.group_start(); }
  void end_together() override { nccl_.group_end(); }
  void begin_beside() override;
  void end_beside() override { stream_ = compute_stream_; }
  void join() override { side_->join(); }
  double waited_seconds() const override { return side_->waited_seconds(); }
  std::shared_ptr<void> register_memory(const Tensor& tensor) override;

 private:
  void* communicator() const;
  std::string error() override;
  void abort() override;

  Nccl nccl_;
  void* compute_stream_;  // cudaStream_t
  std::unique_ptr<SideStream> side_;
  void* stream_;                       // one of both
  void* communicator_ = nullptr;       // ncclComm_t
  std::atomic<bool> aborted_ = false;  // by the watch's thread
};

}  // namespace whisker
