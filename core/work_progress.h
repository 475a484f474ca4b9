// How far this process's work has come. The watch of a run's ranks (rank_watch.h) compares it: a
// process may live, and hang.
#pragma once

#include <cstdint>

namespace whisker {

/// Called for every operator, replayed graph, image, batch, row of a table and MiB that is read or
/// written. From any thread; it costs an atomic addition.
void count_progress();

/// What a process waits for. Of several, the last here counts.
enum class Waiting : uint8_t {
  nothing,
  ranks,    ///< other ranks
  start,    ///< a device, or NCCL: their start shows no progress, and may take minutes
  outside,  ///< standard input, or the reader of standard output
};

struct WorkProgress {
  uint64_t count = 0;
  Waiting waiting = Waiting::nothing;
};
WorkProgress work_progress();

/// While it lives, this process waits; its end is progress.
class WaitScope {
 public:
  explicit WaitScope(Waiting waiting);
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  Waiting waiting_;
};

}  // namespace whisker
