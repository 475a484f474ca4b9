// The only use of OpenMP: contiguous ranges for the whole team, or for the calling thread. The
// runtime reuses a team of constant size; small jobs stay on the calling thread, as do all jobs
// without OpenMP (the fuzz preset).
#pragma once

#include <cstdint>
#include <memory>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace whisker::cpu {

/// Elements of a memory-bound loop below which a second thread costs more than it brings.
inline constexpr int64_t pointwise_grain = 32768;

/// The same bound counted in rows of `length` elements.
inline int64_t rows_grain(int64_t length) {
  return pointwise_grain / (length > 0 ? length : 1) + 1;
}

/// Threads that a large loop would use now.
inline int most_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

/// Threads that parallel_ranges would use for `count` units, at least `grain` of them in all.
inline int team_size(int64_t count, int64_t grain) {
#ifdef _OPENMP
  if (count < grain || count < 2 || omp_in_parallel()) return 1;
  return most_threads();
#else
  (void)count;
  (void)grain;
  return 1;
#endif
}

/// Calls call(fn, begin, end, thread) over a partition of [0, count); one region of OpenMP for all
/// loops, as each takes a compiler as long as the loop in it.
inline void run_ranges(int64_t count, int64_t grain,
                       void (*call)(const void* fn, int64_t begin, int64_t end, int thread),
                       const void* fn) {
  if (count <= 0) return;
  if (team_size(count, grain) == 1) {
    call(fn, 0, count, 0);
    return;
  }
#ifdef _OPENMP
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads();
    const int64_t thread = omp_get_thread_num();
    const int64_t begin = count * thread / threads;
    const int64_t end = count * (thread + 1) / threads;
    if (begin < end) call(fn, begin, end, static_cast<int>(thread));
  }
#endif
}

/// Calls fn(begin, end, thread) over a partition of [0, count). fn must not throw.
template <class Fn>
void parallel_ranges(int64_t count, int64_t grain, const Fn& fn) {
  const auto call = [](const void* f, int64_t begin, int64_t end, int thread) {
    (*static_cast<const Fn*>(f))(begin, end, thread);
  };
  run_ranges(count, grain, call, std::addressof(fn));
}

/// Calls fn(i, thread) for each i of [0, count).
template <class Fn>
void parallel_each(int64_t count, int64_t grain, const Fn& fn) {
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) fn(i, thread);
  });
}

}  // namespace whisker::cpu
