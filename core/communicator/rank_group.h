// The processes of one run and how they exchange small host messages. What moves tensors is
// core/communicator/communicator.h.
#pragma once

#include "core/communicator/rank_environment.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace whisker {

/// Every method that exchanges anything is collective: all ranks call it, in the same order, from
/// one thread. A rank that is gone makes it throw device, or ends the process (MPI).
class RankGroup {
 public:
  explicit RankGroup(const RankEnvironment& environment = {})
      : rank_(environment.rank), world_(environment.world), local_rank_(environment.local_rank) {}
  virtual ~RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  /// Among the ranks of this machine.
  int local_rank() const { return local_rank_; }
  /// Rank 0 writes the run's files and messages.
  bool leads() const { return rank_ == 0; }

  /// What each rank gave, by rank.
  virtual std::vector<std::string> all_gather(std::string_view bytes) {
    return {std::string(bytes)};
  }
  /// The orderly end, after which nothing else is called.
  virtual void leave() {}
  /// Whether MPI carries it: its ranks may then all-reduce host memory.
  virtual bool is_mpi() const { return false; }

  void barrier() { all_gather(""); }
  /// What rank 0 gave.
  std::string from_leader(std::string_view bytes) { return all_gather(leads() ? bytes : "")[0]; }
  /// all_gather() of a plain value.
  template <class T>
  std::vector<T> gather(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all;
    for (const std::string& one :
         all_gather({reinterpret_cast<const char*>(&value), sizeof value})) {
      std::memcpy(&all.emplace_back(), one.data(), std::min(one.size(), sizeof(T)));
    }
    return all;
  }

 private:
  int rank_, world_, local_rank_;
};

/// Joins the ranks that `environment` describes: one process at once, mpirun's through MPI, others
/// over TCP (core/communicator/tcp_group.h). Throws what joining throws.
std::shared_ptr<RankGroup> join_ranks(const RankEnvironment& environment);

}  // namespace whisker
