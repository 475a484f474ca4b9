// Items are taken one by one from a shared counter.
#include "data/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace whisker {

int resolve_workers(int workers) {
  if (workers >= 0) return workers;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 16u));
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
