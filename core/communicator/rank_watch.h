// Ends this process soon after another rank of the run failed, was killed or hangs, or a link
// between GPUs broke, wherever it waits then: in a collective above all. Each rank keeps a
// connection with rank 0 for that, whatever carries the group's messages. See Note [Hanging ranks]
// in rank_courses.h.
#pragma once

#include "core/communicator/rank_courses.h"
#include "core/communicator/rank_group.h"
#include "core/communicator/socket.h"
#include "core/work_progress.h"

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace whisker {

/// How a rank ended.
struct RankFailure {
  int rank = 0;
  std::string host = {};
  int code = 1;  ///< exit code
  /// Whether this process tells the user, because that rank cannot: it was killed, or hangs.
  bool tell = false;
  std::string reason = {};
};

struct RankWatchOptions {
  double silence_s = 20;  ///< so long without a beat, or without progress, a rank hangs
  std::function<WorkProgress()> progress = work_progress;
};

class RankWatch {
 public:
  /// Collective. `on_failure` is called in the watch's own thread and does not return. `group`
  /// outlives the watch.
  RankWatch(RankGroup& group, std::string address,
            std::function<void(const RankFailure&)> on_failure, RankWatchOptions options = {});
  /// Without leave() or fail(), the others take it for a crash.
  ~RankWatch() { stop(); }

  /// Collective: the end of all ranks is in order.
  void leave();
  /// Calls `tell_user`, then tells the others why this rank ends, with which exit code, which ends
  /// them. When another rank failed first, which may be the reason, that rank's failure ends this
  /// process instead.
  void fail(int code, const std::string& reason, const std::function<void()>& tell_user);
  /// "rank 1 on node07".
  std::string name() const { return name_of(rank_); }

 private:
  struct Peer {
    int rank = 0;
    FileDescriptor socket;
    Deadline silent_until;
  };
  void connect(const std::string& address, bool from_others);
  void run(const std::stop_token& stop);
  void stop();
  void beat();
  void read_from(Peer& peer);
  void check_progress();
  void check_collectives();
  void abort_collectives();
  void report(RankFailure failure);
  void tell_all(const std::string& message);
  std::string name_of(int rank) const;
  bool first_to_tell(int failed) const { return rank_ == (failed == 0 ? 1 : 0); }

  RankGroup& group_;
  int rank_;
  RankWatchOptions options_;
  double silence_s_;
  std::function<void(const RankFailure&)> on_failure_;
  std::vector<std::string> hosts_;
  std::mutex mutex_;         // held while something is sent
  std::vector<Peer> peers_;  // of rank 0: all others; of others: rank 0
  std::optional<RankCourses> courses_;  // of rank 0
  std::jthread thread_;
};

}  // namespace whisker
