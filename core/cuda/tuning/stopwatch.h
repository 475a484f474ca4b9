// How long something takes on the GPU, as a step would see it: with the L2 cache cold.
#pragma once

#include "core/cuda/gpu/check.h"
#include "core/cuda/gpu/context.h"
#include "core/cuda/tuning/driver_memory.h"

#include <algorithm>
#include <array>
#include <limits>

namespace whisker::cuda {

class Stopwatch {
 public:
  /// Throws OutOfMemory where the GPU has not even what empties its cache.
  Stopwatch(Context& context, Allocator& allocator)
      : context_(context),
        flush_bytes_(2 * int64_t{context.properties().l2CacheSize}),
        flush_(allocator, flush_bytes_) {
    check(cudaEventCreate(&begin_), "making an event");
    check(cudaEventCreate(&end_), "making an event");
  }
  ~Stopwatch() {
    if (begin_) cudaEventDestroy(begin_);
    if (end_) cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Milliseconds of the work that fn() enqueues, median of `runs` after a first one that is not
  /// counted. Infinite as soon as one run takes more than twice `hopeless`.
  template <class Fn>
  float median(Fn&& fn, float hopeless = std::numeric_limits<float>::infinity()) {
    once(fn);
    std::array<float, runs> times{};
    for (float& time : times) {
      time = once(fn);
      if (time > 2 * hopeless) return std::numeric_limits<float>::infinity();
    }
    std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
    return times[runs / 2];
  }

 private:
  static constexpr int runs = 5;

  // The write that empties the cache also keeps the GPU busy while the host enqueues fn's work, so
  // that what the host needs for it is not measured.
  template <class Fn>
  float once(Fn&& fn) {
    const cudaStream_t stream = context_.stream();
    check(cudaMemsetAsync(flush_.data(), 0, static_cast<size_t>(flush_bytes_), stream),
          "emptying the L2 cache");
    check(cudaEventRecord(begin_, stream), "recording an event");
    fn();
    check(cudaEventRecord(end_, stream), "recording an event");
    check(cudaEventSynchronize(end_), "timing an algorithm");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "reading a time");
    return milliseconds;
  }

  Context& context_;
  int64_t flush_bytes_;
  DriverMemory flush_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace whisker::cuda
