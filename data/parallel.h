// A loop over independent items on own threads, which never enter OpenMP.
#pragma once

#include <cstdint>
#include <functional>

namespace whisker {

/// Those that the calling thread may run on: taskset, SLURM and cpusets allow fewer than there are.
int allowed_cores();

/// `workers`, or for -1 (auto) the number of allowed cores, at most 16.
int resolve_workers(int workers);

/// Calls `body` for 0 .. count - 1, each once, on `workers` threads (0: in this one; -1: auto).
/// Rethrows the exception of the lowest index that threw, after all threads have ended; indices
/// above one that threw may be skipped.
void parallel_for(int64_t count, int workers, const std::function<void(int64_t)>& body);

}  // namespace whisker
