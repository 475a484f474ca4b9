// What reading a file may allocate.
#pragma once

#include "core/error.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace whisker {

/// Counts allocations before they are made. Beyond the budget it throws checkpoint, naming `file`.
class MemoryBudget {
 public:
  MemoryBudget(uint64_t bytes, std::string file) : left_(bytes), file_(std::move(file)) {}

  void charge(uint64_t bytes) {
    if (bytes > left_) {
      fail(ErrorKind::checkpoint,
           "{}: reading it would take more than twice its size in memory. Save the weights alone, "
           "as copies: torch.save({{k: v.contiguous() for k, v in model.state_dict().items()}}, "
           "FILE).",
           file_);
    }
    left_ -= bytes;
  }
  void charge(uint64_t count, uint64_t bytes_each) {
    charge(count > left_ / bytes_each ? left_ + 1 : count * bytes_each);
  }
  /// Makes room for one more element; a vector that moves is there twice for a moment.
  template <class T>
  void grow(std::vector<T>& values) {
    if (values.size() < values.capacity()) return;
    const size_t capacity = std::max<size_t>(4, 2 * values.capacity());
    charge(capacity, sizeof(T));
    values.reserve(capacity);
  }

 private:
  uint64_t left_;
  std::string file_;
};

}  // namespace whisker
