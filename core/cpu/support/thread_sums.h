// Sums in f64 that each thread of a loop adds up for itself.
#pragma once

#include "core/cpu/support/allocator.h"
#include "core/cpu/support/parallel.h"

#include <algorithm>
#include <cstdint>

namespace whisker::cpu {

/// `lanes` sums of each thread of parallel_ranges(count, grain), from 0 on.
class ThreadSums {
 public:
  ThreadSums(Allocator& allocator, int64_t count, int64_t grain, int64_t lanes = 1)
      : lanes_(lanes), team_(team_size(count, grain)), sums_(allocator, team_ * lanes) {
    std::fill_n(sums_.data(), team_ * lanes, 0.0);
  }
  double* of(int thread) const { return sums_.data() + thread * lanes_; }
  /// Those of all threads, in their order, behind `sum`.
  double total(int64_t lane = 0, double sum = 0) const {
    for (int64_t t = 0; t < team_; ++t) sum += sums_[t * lanes_ + lane];
    return sum;
  }

 private:
  int64_t lanes_, team_;
  Scratch<double> sums_;
};

}  // namespace whisker::cpu
