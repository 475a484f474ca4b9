// Timing of algorithms on the GPU under the conditions of a step: the L2 cache is cold, and
// operands are the call's, since a GPU at its power limit computes faster on zeros.
#pragma once

#include "core/cuda/memory/allocator.h"
#include "core/cuda/runtime/context.h"
#include "core/cuda/runtime/streams.h"
#include "core/error.h"
#include "core/work_progress.h"

#include <algorithm>
#include <array>
#include <limits>

namespace whisker::cuda {

/// Device memory for timing algorithms, directly from the driver: the allocator's peak and limit do
/// not change. Whoever times catches OutOfMemory and chooses untimed.
class DriverMemory {
 public:
  /// Empties the allocator's cache where the driver has too little. Throws OutOfMemory when that
  /// does not help, or when this is MemoryOptions::failing_allocation.
  DriverMemory(Allocator& allocator, int64_t bytes) {
    if (bytes <= 0) return;
    { const Scratch counted(allocator, 0); }  // counts as one of failing_allocation
    data_ = allocated_by_driver(bytes);
    if (data_) return;
    allocator.empty_cache();
    data_ = allocated_by_driver(bytes);
    if (!data_) throw OutOfMemory(fmt::format("{} bytes needed to time algorithms in", bytes), 0);
  }
  ~DriverMemory() { cudaFree(data_); }
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

class Stopwatch {
 public:
  /// Throws OutOfMemory when the buffer that empties the L2 cache does not fit.
  Stopwatch(Context& context, Allocator& allocator)
      : context_(context),
        flush_bytes_(2 * int64_t{context.properties().l2CacheSize}),
        flush_(allocator, flush_bytes_) {}

  /// Milliseconds of the work that fn() enqueues, median of `runs` after one warm-up. Infinite as
  /// soon as one run takes more than twice `hopeless`.
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

  // Writing flush_ empties the cache and keeps the GPU busy while the host enqueues fn's work, so
  // that the host's time is not measured.
  template <class Fn>
  float once(Fn&& fn) {
    const cudaStream_t stream = context_.stream();
    check(cudaMemsetAsync(flush_.data(), 0, static_cast<size_t>(flush_bytes_), stream),
          "emptying the L2 cache");
    begin_.record(stream);
    fn();
    end_.record(stream);
    end_.wait();
    count_progress();
    float milliseconds = 0;
    check(end_.time_since(begin_, milliseconds), "reading a time");
    return milliseconds;
  }

  Context& context_;
  int64_t flush_bytes_;
  DriverMemory flush_;
  TimedEvent begin_, end_;
};

}  // namespace whisker::cuda
