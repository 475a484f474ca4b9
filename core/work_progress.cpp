#include "core/work_progress.h"

#include <array>
#include <atomic>
#include <cstddef>

namespace whisker {
namespace {

// The counts belong to the process, as what they watch does.
std::atomic<uint64_t> progress_count = 0;
std::array<std::atomic<int>, 4> living_waits = {};  // scopes that live, by Waiting

std::atomic<int>& waits_for(Waiting waiting) {
  return living_waits[static_cast<size_t>(waiting)];
}

}  // namespace

void count_progress() {
  progress_count.fetch_add(1, std::memory_order_relaxed);
}

WorkProgress work_progress() {
  WorkProgress progress{.count = progress_count.load(std::memory_order_relaxed)};
  for (const Waiting waiting : {Waiting::ranks, Waiting::start, Waiting::outside}) {
    if (waits_for(waiting).load(std::memory_order_relaxed) > 0) progress.waiting = waiting;
  }
  return progress;
}

WaitScope::WaitScope(Waiting waiting) : waiting_(waiting) {
  waits_for(waiting_).fetch_add(1, std::memory_order_relaxed);
}

WaitScope::~WaitScope() {
  waits_for(waiting_).fetch_sub(1, std::memory_order_relaxed);
  count_progress();
}

}  // namespace whisker
