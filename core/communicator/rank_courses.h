// How far each rank of a run has come, as rank 0's watch follows it, and which of them hangs.
#pragma once

#include "core/communicator/socket.h"
#include "core/work_progress.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace whisker {

// Note [Hanging ranks]
// A process that is stopped is not heard: no beat comes from it. One whose threads wait for each
// other, or for a disk, is heard for ever, so a beat carries how far its work has come. Two things
// are a hang: a rank that waits for no other one makes no progress; or none of them makes any, each
// waiting for another, and then the one that stopped first is named. A rank that waits for one
// whose work goes on, however slowly, does not hang. Where a GPU may wait for other ranks (NCCL),
// its process seems to work meanwhile, so that the first of the two says nothing there.
class RankCourses {
 public:
  RankCourses(size_t world, double silence_s) : silence_s_(silence_s), courses_(world) {}

  /// All ranks have made progress just now.
  void restart(Deadline now);
  /// What rank `rank` reports. `on_device`: its GPU may wait for other ranks.
  void follow(int rank, const WorkProgress& progress, bool on_device, Deadline now);

  struct Hang {
    int rank = 0;
    std::string reason;
  };
  std::optional<Hang> hang(Deadline now) const;

 private:
  struct Course {
    WorkProgress progress;
    bool on_device = false;
    Deadline moved = {};  // when the count rose last
  };
  bool stands(const Course& course, Deadline now) const;
  Hang hang_of(const Course& course, const char* what) const;

  double silence_s_;
  std::vector<Course> courses_;  // by rank
};

}  // namespace whisker
