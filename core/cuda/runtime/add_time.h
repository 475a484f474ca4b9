// Adds its lifetime in seconds to a sum, less the lifetimes of timers within it: time to open a
// library for the first plan counts as the library's.
#pragma once

#include <chrono>

namespace whisker::cuda {

class AddTime {
 public:
  explicit AddTime(double& seconds) : seconds_(seconds) { innermost = this; }
  ~AddTime() {
    const double lived =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    seconds_ += lived - within_;
    if (outer_) outer_->within_ += lived;
    innermost = outer_;
  }
  AddTime(const AddTime&) = delete;
  AddTime& operator=(const AddTime&) = delete;

 private:
  static inline constinit thread_local AddTime* innermost = nullptr;

  double& seconds_;
  AddTime* const outer_ = innermost;  // before the constructor's body makes it this one
  double within_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace whisker::cuda
