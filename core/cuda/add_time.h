// Adds the seconds that it lives to a sum.
#pragma once

#include <chrono>

namespace whisker::cuda {

class AddTime {
 public:
  explicit AddTime(double& seconds) : seconds_(seconds) {}
  ~AddTime() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  AddTime(const AddTime&) = delete;
  AddTime& operator=(const AddTime&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace whisker::cuda
