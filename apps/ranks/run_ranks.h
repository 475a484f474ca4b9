// A command's part in a run of several ranks: joining them, and ending together.
#pragma once

#include "core/communicator/rank_group.h"
#include "core/communicator/rank_watch.h"

#include <memory>

namespace whisker {

class RunRanks {
 public:
  /// Joins the ranks that the launcher's environment names; one process is a rank of one.
  RunRanks();

  const std::shared_ptr<RankGroup>& group() const { return group_; }

  /// work() of one rank. Its error, with the rank and host in front, ends all ranks, and so does a
  /// rank that was killed or hangs, each with that rank's exit code. In order all leave together.
  template <class Work>
  int run(const Work& work) {
    if (group_->world() == 1) return work();
    try {
      const int code = work();
      leave();
      return code;
    } catch (...) {
      fail_all();
    }
  }

 private:
  void leave();
  [[noreturn]] void fail_all();

  std::shared_ptr<RankGroup> group_;
  std::unique_ptr<RankWatch> watch_;
};

}  // namespace whisker
