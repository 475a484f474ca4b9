// Which process of a run this is, as the launcher's environment says: torchrun and `whisker --gpus`
// (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), mpirun (OMPI_COMM_WORLD_*) and srun
// (SLURM_*).
#pragma once

#include <cstdint>
#include <string>

namespace whisker {

enum class Launcher : uint8_t { none, variables, mpirun, srun };

struct RankEnvironment {
  Launcher launcher = Launcher::none;
  int rank = 0;
  int world = 1;
  int local_rank = 0;  ///< among the ranks of this machine
  /// Whether the launcher said that all ranks are on this machine.
  bool one_machine = false;
  /// Where rank 0 listens: loopback unless the environment names another address.
  std::string address = "127.0.0.1";
  int port = 29500;
  std::string secret;  ///< that the ranks of one run share; a process without it is refused
  int silence_s = 20;  ///< a rank that was not heard for so long hangs
};

/// Reads the environment. Of several launchers the innermost counts: RANK and WORLD_SIZE, then
/// mpirun, then srun. Throws usage, naming the variable, for values that cannot be, and where only
/// a part of a launcher's variables would start every process as a run of its own.
RankEnvironment rank_environment();

/// The name of this machine.
std::string host_name();

/// The first host of a SLURM list: "node07" of "node[07-12,20],gpu1".
std::string first_host(const std::string& hosts);

}  // namespace whisker
