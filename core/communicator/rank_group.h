// The processes of one run and how they exchange small host messages. What moves tensors is
// core/communicator/communicator.h.
#pragma once

#include "core/communicator/rank_environment.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace whisker {

/// What a rank's watch (core/communicator/rank_watch.h) asks of collectives under way.
class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Why they will not end; "" as long as they may. From any thread.
  virtual std::string error() = 0;
  /// Ends those that wait for other ranks. From any thread; it may wait itself.
  virtual void abort() = 0;
};

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

  /// Null: there are none any more. They are called in the watch's thread until then.
  void watch_collectives(Collectives* collectives) {
    const std::lock_guard lock(collectives_mutex_);
    collectives_ = collectives;
  }
  /// Whether a device may wait for other ranks, while this process seems to work.
  bool has_collectives() {
    const std::lock_guard lock(collectives_mutex_);
    return collectives_ != nullptr;
  }
  std::string collectives_error() {
    const std::lock_guard lock(collectives_mutex_);
    return collectives_ ? collectives_->error() : "";
  }
  void abort_collectives() {
    const std::lock_guard lock(collectives_mutex_);
    if (collectives_) collectives_->abort();
  }

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
  std::mutex collectives_mutex_;
  Collectives* collectives_ = nullptr;
};

/// Joins the ranks that `environment` describes: one process at once, mpirun's through MPI, others
/// over TCP (core/communicator/tcp_group.h). Throws what joining throws.
std::shared_ptr<RankGroup> join_ranks(const RankEnvironment& environment);

}  // namespace whisker
