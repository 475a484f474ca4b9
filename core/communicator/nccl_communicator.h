// Collectives of GPUs, one process each, enqueued on the compute stream.
#pragma once

#include "core/communicator/communicator.h"
#include "core/nvidia/nccl.h"

namespace whisker {

class NcclCommunicator final : public Communicator {
 public:
  /// Collective: rank 0's id reaches the others through `group`.
  NcclCommunicator(std::shared_ptr<RankGroup> group, Device device);
  ~NcclCommunicator() override;
  std::string description() const override;
  void all_reduce(const Tensor& tensor, ReduceKind kind) override;
  void broadcast(const Tensor& tensor) override;
  void begin_together() override { nccl_.group_start(); }
  void end_together() override { nccl_.group_end(); }

 private:
  Nccl nccl_;
  void* stream_;                  // cudaStream_t
  void* communicator_ = nullptr;  // ncclComm_t
};

}  // namespace whisker
