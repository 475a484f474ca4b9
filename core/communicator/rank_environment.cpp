#include "core/communicator/rank_environment.h"

#include "core/error.h"
#include "core/io/hash.h"
#include "core/io/text.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include <unistd.h>

namespace whisker {
namespace {

constexpr int most_ranks = 1 << 20;

std::string text_of(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

std::optional<int> number_of(const char* name, int least, int most) {
  const std::string text = text_of(name);
  if (text.empty()) return std::nullopt;
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < least || value > most) {
    fail(ErrorKind::usage, "{}: expected a number from {} to {}, got {}.", name, least, most,
         excerpt(text));
  }
  return value;
}

/// Names of the variables of one launcher.
struct Names {
  const char* rank;
  const char* world;
  const char* local_rank;
  const char* local_world;  // "": none
};

bool read_ranks(const Names& names, RankEnvironment& found) {
  if (text_of(names.rank).empty()) return false;
  const std::optional<int> world = number_of(names.world, 1, most_ranks);
  if (!world) return false;
  found.world = *world;
  found.rank = *number_of(names.rank, 0, *world - 1);
  found.local_rank = number_of(names.local_rank, 0, most_ranks).value_or(found.rank);
  found.one_machine = number_of(names.local_world, 1, most_ranks) == *world;
  return true;
}

// What would start every process as a run of its own.
void refuse_half_a_launcher() {
  const bool rank = !text_of("RANK").empty();
  const bool several = number_of("WORLD_SIZE", 1, most_ranks).value_or(1) > 1;
  if (rank && text_of("WORLD_SIZE").empty()) {
    fail(ErrorKind::usage,
         "RANK is set and WORLD_SIZE is not. Set both, as torchrun does, or neither.");
  }
  if (!rank && several) {
    fail(ErrorKind::usage,
         "WORLD_SIZE is set and RANK is not. Set both, as torchrun does, or neither.");
  }
  if (number_of("PMI_SIZE", 1, most_ranks).value_or(1) > 1) {
    fail(ErrorKind::usage,
         "{} processes were started by MPICH's launcher, which Whisker does not know. Use "
         "torchrun, Open MPI's mpirun, srun or --gpus.",
         text_of("PMI_SIZE"));
  }
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "this machine";
}

std::string first_host(const std::string& hosts) {
  const size_t bracket = hosts.find_first_of("[,");
  if (bracket == std::string::npos || hosts[bracket] == ',') return hosts.substr(0, bracket);
  const size_t end = hosts.find_first_of(",-]", bracket + 1);
  const size_t close = hosts.find(']', bracket);
  if (close == std::string::npos) return hosts;
  const size_t next = hosts.find(',', close);
  const std::string suffix =
      hosts.substr(close + 1, next == std::string::npos ? next : next - close - 1);
  return hosts.substr(0, bracket) + hosts.substr(bracket + 1, end - bracket - 1) + suffix;
}

RankEnvironment rank_environment() {
  RankEnvironment found;
  int port = 29500;  // torchrun's default
  if (read_ranks({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, found)) {
    found.launcher = Launcher::variables;
    found.secret = text_of("TORCHELASTIC_RUN_ID");
  } else if (read_ranks({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                        found)) {
    found.launcher = Launcher::mpirun;
  } else if (!text_of("SLURM_STEP_ID").empty() &&  // a batch script's own shell is no task
             read_ranks({"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""}, found)) {
    found.launcher = Launcher::srun;
    const std::string job = text_of("SLURM_JOB_ID");
    found.secret = fmt::format("{}.{}", job, text_of("SLURM_STEP_ID"));
    port = 20000 + static_cast<int>(hash64(found.secret) % 10000);
    found.one_machine = number_of("SLURM_STEP_NUM_NODES", 1, most_ranks).value_or(1) == 1;
    if (!found.one_machine) {
      found.address = first_host(text_of("SLURM_STEP_NODELIST"));
    }
  }
  if (found.launcher == Launcher::none) refuse_half_a_launcher();
  if (found.world == 1) return found;
  if (const std::string address = text_of("MASTER_ADDR"); !address.empty()) found.address = address;
  found.port = number_of("MASTER_PORT", 1, 65535).value_or(port);
  // torchrun's own store listens on MASTER_PORT.
  if (!text_of("TORCHELASTIC_RUN_ID").empty()) ++found.port;
  if (const std::string secret = text_of("WHISKER_SECRET"); !secret.empty()) found.secret = secret;
  found.silence_s = number_of("WHISKER_SILENCE_S", 4, 1'000'000).value_or(found.silence_s);
  return found;
}

}  // namespace whisker
