// How long choosing algorithms by timing may take in all, shared by everything that is chosen.
#pragma once

#include "core/cuda/stopwatch.h"

#include <chrono>

namespace whisker::cuda {

class SearchBudget {
 public:
  /// Another limit for what has been spent so far and will be.
  void set_limit(double seconds) { limit_ = seconds; }
  /// True while time is left and the stream's work is not being recorded.
  bool may_search(cudaStream_t stream) const { return spent_ < limit_ && !capturing(stream); }

  /// Counts its own lifetime.
  class Use {
   public:
    explicit Use(SearchBudget& budget) : budget_(budget) {}
    ~Use() { budget_.spent_ += seconds(); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    double seconds() const {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

   private:
    SearchBudget& budget_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  };

 private:
  double limit_ = 0;  // seconds
  double spent_ = 0;
};

}  // namespace whisker::cuda
