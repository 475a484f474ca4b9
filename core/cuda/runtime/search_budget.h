// How long choosing algorithms by timing may take: in total, and for one choice, which should cost
// less than it can save.
#pragma once

#include "core/cuda/runtime/streams.h"

#include <chrono>
#include <limits>

namespace whisker::cuda {

class SearchBudget {
 public:
  /// Limit of the total, including what has been spent.
  void set_limit(double seconds) { limit_ = seconds; }
  double limit() const { return limit_; }
  /// How often each choice will be used; 0: unknown.
  void set_uses(int64_t uses) { uses_ = uses; }
  /// Seconds that choosing may take for work of `milliseconds` per use: a tenth of all its uses.
  double worth(float milliseconds) const {
    constexpr double fraction = 0.1;
    if (uses_ == 0) return std::numeric_limits<double>::infinity();
    return fraction * 1e-3 * static_cast<double>(milliseconds) * static_cast<double>(uses_);
  }
  /// True while time is left and the stream's work is not being recorded.
  bool may_search(cudaStream_t stream) const { return spent_ < limit_ && !capturing(stream); }

  /// Charges its own lifetime to the budget.
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
  int64_t uses_ = 0;
  double spent_ = 0;
};

}  // namespace whisker::cuda
