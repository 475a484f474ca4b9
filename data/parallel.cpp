// Items are taken one by one from a shared counter.
#include "data/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include <sched.h>

namespace whisker {

int allowed_cores() {
  constexpr int most_known = 1024;
  cpu_set_t allowed;
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return known ? std::max(CPU_COUNT(&allowed), 1) : most_known;
}

int resolve_workers(int workers) {
  constexpr int most = 16;
  return workers >= 0 ? workers : std::min(allowed_cores(), most);
}

void parallel_for(int64_t count, int workers, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  int64_t failed = std::numeric_limits<int64_t>::max();
  std::exception_ptr error;
  const auto work = [&] {
    for (int64_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
      }
    }
  };
  const int64_t threads = std::min<int64_t>(resolve_workers(workers), count);
  if (threads <= 1) {
    work();
  } else {
    std::vector<std::jthread> pool;
    try {
      for (int64_t i = 0; i < threads; ++i) pool.emplace_back(work);
    } catch (...) {  // those that started need do no more
      next = count;
      throw;
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace whisker
