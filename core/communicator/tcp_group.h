// Ranks that exchange host messages over TCP: each is connected with rank 0, which listens at
// MASTER_ADDR:MASTER_PORT until all have come. Made for short messages, NCCL's id above all.
#pragma once

#include "core/communicator/rank_group.h"
#include "core/communicator/socket.h"

#include <vector>

namespace whisker {

class TcpGroup final : public RankGroup {
 public:
  /// Waits for all ranks. Throws device, naming the missing ranks, when they have not come after
  /// `seconds`, and when rank 0 refuses this one: another secret, number of ranks, or its rank
  /// twice.
  explicit TcpGroup(const RankEnvironment& environment, double seconds = 60);
  std::vector<std::string> all_gather(std::string_view bytes) override;

 private:
  void wait_for_others(const RankEnvironment& environment, double seconds);
  void join(const RankEnvironment& environment, double seconds);

  std::vector<FileDescriptor> sockets_;  // of rank 0: to each rank, by rank; of others: to rank 0
};

}  // namespace whisker
