// Memory that runs out where a test wants it to: linked in, it replaces the program's operator new.
#pragma once

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

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

/// Lets each of the allocations of an epoch of make() fail once. How many there are, and of how
/// many the caller was told.
template <class MakeLoader>
std::pair<int64_t, int64_t> fail_each_allocation_of_an_epoch(const MakeLoader& make) {
  int64_t failures = 0, reported = 0;
  for (bool failed = true; failed;) {
    const auto loader = make();
    const FailingNew failing(failures + 1, 1);
    try {
      loader->start_epoch(0);
      while (loader->next()) continue;
    } catch (const std::bad_alloc&) {
      ++reported;
    }
    failed = failing.failed();
    failures += failed;
  }
  return {failures, reported};
}

}  // namespace whisker::test
