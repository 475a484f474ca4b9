// Memory that runs out where a test wants it to: linked in, it replaces the program's operator new.
#pragma once

#include <cstdint>
#include <limits>

namespace whisker::test {

/// While it lives, `count` uses of new throw std::bad_alloc, on any thread: from the `first` on,
/// counted from 1. One at a time.
class FailingNew {
 public:
  explicit FailingNew(int64_t first, int64_t count = std::numeric_limits<int64_t>::max());
  ~FailingNew();
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  /// Whether any has failed.
  bool failed() const;
};

}  // namespace whisker::test
