#include "core/communicator/communicator.h"

#include "core/communicator/mpi.h"
#include "core/communicator/nccl_communicator.h"
#include "core/error.h"

namespace whisker {

std::shared_ptr<Communicator> make_communicator(std::shared_ptr<RankGroup> group, Device device) {
  if (group->world() == 1) return std::make_shared<Communicator>(std::move(group));
  if (device.kind == DeviceKind::cuda) {
    return std::make_shared<NcclCommunicator>(std::move(group), device);
  }
  if (group->is_mpi()) return std::make_shared<MpiCommunicator>(std::move(group));
  fail(ErrorKind::usage,
       "device {}: {} ranks on CPUs exchange gradients through MPI. Start them with mpirun -n {}, "
       "also within SLURM's salloc and sbatch.",
       device, group->world(), group->world());
}

}  // namespace whisker
