// Remedy for the error when the system starts no more threads.
#pragma once

namespace whisker {

inline constexpr const char* thread_remedy =
    "Ask for fewer (OMP_NUM_THREADS, data.workers), or raise the limit on processes and threads "
    "(ulimit -u) or on address space (ulimit -v).";

}  // namespace whisker
