// Objects that are slow to make and used again, by whichever thread needs one next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace whisker {

/// Thread-safe.
template <class T>
class FreeList {
 public:
  /// The object given back last that `fits`; null when none is free: make one, and give() it.
  template <class Fits>
  std::unique_ptr<T> take(Fits fits) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(free_.rbegin(), free_.rend(),
                                    [&](const std::unique_ptr<T>& one) { return fits(*one); });
    if (found == free_.rend()) {
      free_.reserve(static_cast<size_t>(++made_));
      return nullptr;
    }
    std::unique_ptr<T> one = std::move(*found);
    free_.erase(std::next(found).base());
    return one;
  }
  std::unique_ptr<T> take() {
    return take([](const T&) { return true; });
  }
  /// What take() returns, or a new one.
  std::unique_ptr<T> take_or_make() {
    std::unique_ptr<T> one = take();
    return one ? std::move(one) : std::make_unique<T>();
  }
  /// Never fails: the list has the capacity for all that were made.
  void give(std::unique_ptr<T> one) noexcept {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(one));
  }
  /// Times that take() found none: objects made so far, where each such caller makes one.
  int64_t made() const {
    const std::lock_guard lock(mutex_);
    return made_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<T>> free_;
  int64_t made_ = 0;
};

}  // namespace whisker
