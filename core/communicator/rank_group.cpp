#include "core/communicator/rank_group.h"

#include "core/communicator/mpi.h"
#include "core/communicator/tcp_group.h"

namespace whisker {

std::shared_ptr<RankGroup> join_ranks(const RankEnvironment& environment) {
  if (environment.world == 1) return std::make_shared<RankGroup>();
  if (environment.launcher == Launcher::mpirun) return std::make_shared<MpiGroup>(environment);
  return std::make_shared<TcpGroup>(environment);
}

}  // namespace whisker
